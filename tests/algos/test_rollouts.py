import numpy as np

import algos.rollouts as rollouts_module
from algos.observations import ObservationEncoder
from algos.rollouts import FrameRoom
from fast_core.algorithm import RolloutBatch, ShardRollout
from fast_core.spec import EnvironmentSpec, SpaceSpec


def rollout(shard, steps=3, envs=2):
    """Every number says where it comes from: shard, step, environment."""
    place = (100.0 * shard + 10.0 * np.arange(steps + 1)[:, None] + np.arange(envs)[None]).astype(
        np.float32
    )
    no = np.zeros((steps, envs), bool)
    return ShardRollout(
        shard=shard,
        rollout_id=0,
        policy_version=np.zeros(steps, np.int64),
        obs=place[..., None],
        action=place[:-1].astype(np.int64),
        behaviour_log_prob=-place[:-1],
        reward=place[:-1] + 0.5,
        terminated=no.copy(),
        truncated=no.copy(),
        final_obs=np.full((steps, envs, 1), np.nan, np.float32),
    )


ONE = SpaceSpec("box", (1,), "float32")
ENCODER = ObservationEncoder(EnvironmentSpec("Test-v0", ONE, ONE), ())


def merge(*rollouts):
    return rollouts_module.merge(RolloutBatch(rollouts, 0, 0.0), ENCODER, FrameRoom())


def test_shards_stand_side_by_side_in_merge_order():
    merged = merge(rollout(1), rollout(0))
    assert merged.shards == (1, 0)
    assert merged.obs.vector.shape == (16, 1) and merged.grid_rows == 16
    assert merged.obs.vector[8:12, 0].tolist() == [120, 121, 20, 21]
    assert merged.action[1].tolist() == [110, 111, 10, 11]
    assert merged.reward[0].tolist() == [100.5, 101.5, 0.5, 1.5]
    assert merged.behaviour_log_prob[0].tolist() == [-100, -101, 0, -1]


def test_only_final_observations_of_truncated_steps_are_read():
    first, second = rollout(0), rollout(1)
    first.terminated[0, 1] = first.truncated[0, 1] = True  # both: the task ended
    first.terminated[2, 0] = True
    second.truncated[1, 1] = True
    second.final_obs[1, 1] = 7.0
    first.truncated[1, 0] = True
    first.final_obs[1, 0] = 8.0
    merged = merge(first, second)
    assert merged.obs.vector[merged.grid_rows :, 0].tolist() == [8.0, 7.0]
    assert merged.final_step.tolist() == [1, 1] and merged.final_column.tolist() == [0, 3]
    assert not merged.truncated[0, 1] and merged.terminated[0, 1]
    assert first.truncated[0, 1], "shared memory is only read"


def test_merged_columns_outlive_the_batch():
    source = rollout(0)
    merged = merge(source)
    source.obs[...] = source.reward[...] = np.nan
    source.action[...] = -1
    assert merged.obs.finite and np.isfinite(merged.reward).all()
    assert (merged.action >= 0).all()
