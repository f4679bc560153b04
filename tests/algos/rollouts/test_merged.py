import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import fast_core.algos.rollouts.merged as rollouts_module
from fast_core.algorithm import RolloutBatch, ShardRollout
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.images import find_images
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.rollouts.merged import FrameRoom


def rollout(shard, steps=3, envs=2):
    """Every number says where it comes from: shard, step, environment."""
    place = (100.0 * shard + 10.0 * np.arange(steps + 1)[:, None] + np.arange(envs)[None]).astype(
        np.float32
    )
    no = np.zeros((steps, envs), bool)
    return ShardRollout(
        shard=shard,
        rollout_id=0,
        policy_version=np.zeros((steps, envs), np.int64),
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
    assert merged.obs.vector.shape == (16, 1)
    assert merged.obs.vector[8:12, 0].tolist() == [120, 121, 20, 21]
    assert merged.action[1].tolist() == [110, 111, 10, 11]
    assert merged.reward[0].tolist() == [100.5, 101.5, 0.5, 1.5]
    assert merged.behaviour_log_prob[0].tolist() == [-100, -101, 0, -1]


def test_declared_columns_stand_beside_the_usual_ones():
    parts = [
        dataclasses.replace(rollout(shard), extra={"cost": np.full((3, 2, 5), shard)})
        for shard in (1, 0)
    ]
    merged = merge(*parts)
    np.testing.assert_array_equal(
        merged.extra["cost"], np.concatenate([p.extra["cost"] for p in parts], 1)
    )
    assert merge(rollout(0)).extra == {}


def test_only_final_observations_of_truncated_steps_are_read():
    first, second = rollout(0), rollout(1)
    first.terminated[0, 1] = first.truncated[0, 1] = True  # both: the task ended
    first.terminated[2, 0] = True
    second.truncated[1, 1] = True
    second.final_obs[1, 1] = 7.0
    first.truncated[1, 0] = True
    first.final_obs[1, 0] = 8.0
    merged = merge(first, second)
    assert merged.obs.vector[-2:, 0].tolist() == [8.0, 7.0]
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


def episodes(rng, steps, envs, stack, row_shape, dtype):
    """A rollout of stacked frames, and what a policy saw at each row and at each end.

    Frames carry random numbers; the stacks are kept step by step, as an environment would.
    """
    frames = rng.integers(0, 200, (stack - 1 + steps + 1, envs, *row_shape)).astype(dtype)
    final = rng.integers(200, 250, (steps, envs, *row_shape)).astype(dtype)
    ended = rng.random((steps, envs)) < 0.3
    terminated = ended & (rng.random((steps, envs)) < 0.3)
    age = np.zeros((steps + 1, envs), np.uint8)
    seen = np.zeros((steps + 1, envs, stack, *row_shape), dtype)
    last = np.zeros((steps, envs, stack, *row_shape), dtype)
    for env in range(envs):
        age[0, env] = rng.integers(0, stack)
        first = stack - 1 - age[0, env]  # where its episode began
        for t in range(steps + 1):
            now = t + stack - 1
            if t > 0 and ended[t - 1, env]:
                first = now
            age[t, env] = min(now - first, stack - 1)
            history = [frames[max(first, now - back), env] for back in range(stack)][::-1]
            seen[t, env] = history
            if t < steps:
                last[t, env] = [*history[1:], final[t, env]]
    zeros = np.zeros((steps, envs), np.float32)
    rollout = ShardRollout(
        0, 0, zeros.astype(np.int64), frames[stack - 1 :], zeros.astype(np.int64), zeros, zeros,
        terminated, ended & ~terminated, final, frames=frames, frame_age=age,
    )  # fmt: skip
    return rollout, seen, last


def looked_up(image):
    return image.frames[image.index]


@given(
    seed=st.integers(0, 10_000), stack=st.integers(2, 4), steps=st.integers(1, 9),
    shards=st.integers(1, 3),
)  # fmt: skip
def test_every_row_finds_the_frames_that_its_policy_saw(seed, stack, steps, shards):
    rng = np.random.default_rng(seed)
    parts = [episodes(rng, steps, 2, stack, (16, 17), np.uint8) for _ in range(shards)]
    frame = SpaceSpec("box", (stack, 16, 17), "uint8", low=(0.0,), high=(255.0,))
    environment = EnvironmentSpec("Test-v0", frame, ONE, frames=stack)
    encoder = ObservationEncoder(environment, find_images(environment))
    batch = RolloutBatch(tuple(rollout for rollout, _, _ in parts), 0, 0.0)
    merged = rollouts_module.merge(batch, encoder, FrameRoom())
    seen = np.concatenate([s for _, s, _ in parts], axis=1)
    last = np.concatenate([end for _, _, end in parts], axis=1)
    (image,) = merged.obs.images
    got = looked_up(image)
    grid = len(merged.obs) - len(merged.final_step)
    np.testing.assert_array_equal(got[:grid], seen.reshape(grid, *seen.shape[2:]))
    np.testing.assert_array_equal(got[grid:], last[merged.final_step, merged.final_column])
    assert merged.obs.vector.shape == (len(got), 0)
    stored = (stack + steps) * 2 * shards + len(merged.final_step)
    assert len(image.frames) == stored, "no frame is stored twice"


def test_stacked_numbers_are_flattened_as_the_policy_saw_them():
    rollout, seen, last = episodes(np.random.default_rng(0), 8, 3, 3, (2,), np.float32)
    frame = SpaceSpec("box", (3, 2), "float32", low=(0.0,), high=(255.0,))
    encoder = ObservationEncoder(EnvironmentSpec("Test-v0", frame, ONE, frames=3), ())
    merged = rollouts_module.merge(RolloutBatch((rollout,), 0, 0.0), encoder, FrameRoom())
    np.testing.assert_array_equal(merged.obs.vector[:27], seen.reshape(27, 6))
    ends = last[merged.final_step, merged.final_column].reshape(-1, 6)
    assert len(ends) > 0
    np.testing.assert_array_equal(merged.obs.vector[27:], ends)


def test_images_and_masks_of_composite_observations_are_merged_with_final_ones():
    camera = SpaceSpec("box", (16, 16), "uint8", low=(0.0,), high=(255.0,))
    mask = SpaceSpec("box", (2,), "bool", low=(0.0,), high=(1.0,))
    parts = SpaceSpec.composite([("camera", camera), ("speed", ONE), ("mask", mask)])
    two = SpaceSpec("discrete", (), "int64", n=2)
    environment = EnvironmentSpec("Test-v0", parts, two, action_mask="mask")
    encoder = ObservationEncoder(environment, find_images(environment))
    rollouts = []
    for shard in range(2):
        one = rollout(shard)
        obs, final = np.zeros((4, 2), parts.row_dtype), np.zeros((3, 2), parts.row_dtype)
        place = 100 * shard + 10 * np.arange(4)[:, None] + np.arange(2)
        obs["camera"] = place[..., None, None]
        obs["speed"] = place[..., None]
        obs["mask"][..., 1] = True
        final["camera"], final["speed"], final["mask"][..., 0] = 77 + shard, 7 + shard, True
        one.truncated[1, shard] = True
        rollouts.append(dataclasses.replace(one, obs=obs, final_obs=final))
    table = rollouts_module.merge(RolloutBatch(tuple(rollouts), 0, 0.0), encoder, FrameRoom()).obs
    expected = [0, 1, 100, 101, 10, 11, 110, 111, 20, 21, 120, 121, 30, 31, 130, 131]
    assert table.vector[:, 0].tolist() == [*expected, 7, 8]
    pictures = looked_up(table.images[0])
    assert pictures.shape == (18, 1, 16, 16)
    assert pictures[:, 0, 3, 3].tolist() == [*expected, 77, 78]
    assert table.mask.tolist() == [[False, True]] * 16 + [[True, False]] * 2


def test_room_for_frames_is_kept_and_grows():
    room, like = FrameRoom(), np.zeros((1, 1, 4, 4), np.uint8)
    first = room.take(0, 100, like)
    assert np.shares_memory(first, room.take(0, 90, like))
    assert not np.shares_memory(first, room.take(1, 90, like))
    assert len(room.take(0, 500, like)) == 500
