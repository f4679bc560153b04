"""What ``rollout.steps: auto`` stands for, what a continued run keeps, what is known early."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from msgspec.structs import replace

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.config import (
    EvaluationConfig,
    ExtraNodeConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    PolicyNodesConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    SchedulerConfig,
    StopConfig,
)
from fast_core.config import file as config_file
from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.checkpoints.store import check_identity
from fast_core.launcher.prepare import identity, resolve
from fast_core.launcher.process_mode import expected_roles
from fast_core.launcher.run import with_horizon_of, with_saved_steps
from fast_core.launcher.sizing.trial import trial_plan
from fast_core.launcher.topology import warm
from fast_core.monitor.checkpoint_files import Manifest
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.memory import layout_of
from fast_core.run.parts import parts_of, roles_of
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_log, structures
from tests.nodes.stage import CARTPOLE, make_config

HALFCHEETAH = EnvironmentSpec(
    id="HalfCheetah-v5",
    observation=SpaceSpec("box", (17,), "float64", low=(-9.0,), high=(9.0,)),
    action=SpaceSpec("box", (6,), "float32", low=(-1.0,), high=(1.0,)),
    max_episode_steps=1000,
)


def replaying(**changes: object) -> RunConfig:
    rollout = RolloutConfig(shards=2, envs_per_shard=4)
    given = {"rollout": rollout, "algorithm": SACConfig(), "replay": ReplayConfig()}
    return make_config(**{**given, **changes})


def rows(
    *, ratio: float = 1.0, envs: int = 4, widths: tuple[int, ...] = (256, 256), batch: int = 256
) -> int:
    """Rows of a resolved ticket."""
    config = replaying(
        rollout=RolloutConfig(shards=2, envs_per_shard=envs),
        algorithm=SACConfig(hidden_sizes=widths, batch_size=batch),
        scheduler=SchedulerConfig(replay_ratio=ratio),
    )
    return resolve(config, HALFCHEETAH, 2).rows_per_ticket


def test_rollouts_without_replay_have_32_steps() -> None:
    config = make_config(rollout=RolloutConfig(shards=2, envs_per_shard=2))
    assert config.steps == resolve(config, CARTPOLE, 2).rollout.steps == 32


def test_steps_that_were_given_stay() -> None:
    given = replaying(rollout=RolloutConfig(shards=2, envs_per_shard=4, steps=1))
    assert resolve(given, HALFCHEETAH, 2).rollout.steps == 1


def test_steps_of_a_replay_are_unknown_before_the_run_is_resolved() -> None:
    with pytest.raises(ConfigError, match=r"rollout\.steps is still 'auto'"):
        replaying().rows_per_ticket  # noqa: B018
    assert "rollout" not in identity(replaying())
    resolved = resolve(replaying(), HALFCHEETAH, 2)
    assert isinstance(resolved.rollout.steps, int)
    assert "rollout" in identity(resolved)
    assert resolve(resolved, HALFCHEETAH, 2) == resolved


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_length_of_a_round_does_not_depend_on_the_machine(cores: int) -> None:
    """Results do depend on it."""
    expected = resolve(replaying(), HALFCHEETAH, 2).rollout
    assert resolve(replaying(), HALFCHEETAH, cores).rollout == expected


def test_round_grants_updates_for_fifty_times_its_hand_over() -> None:
    """A hand-over of 3 ms; 256 rows through 2x256 networks are about 0.63 GFLOP, 4.8 ms."""
    assert rows() == 40  # five steps of each environment
    assert rows(widths=(64, 64)) in range(150, 190)
    assert rows(widths=(8,), batch=8) in range(240, 260)  # only calls: 0.6 ms each
    assert rows(envs=64) == 128, "never less than a step"


def test_round_has_as_many_more_rows_as_fewer_of_them_are_learned_from() -> None:
    small = {"widths": (8,), "batch": 8}
    once = rows(**small)  # type: ignore[arg-type]
    assert rows(ratio=0.1, **small) == pytest.approx(10 * once, rel=0.1)  # type: ignore[arg-type]
    assert rows(ratio=1000, **small) == 8  # type: ignore[arg-type]


@pytest.mark.parametrize("ratio", [0.01, 0.001, 1e-6])
def test_round_that_hardly_grants_anything_is_as_long_as_its_steps_take(ratio: float) -> None:
    """At 20 us a step, 150 ms; it would have had 25,000 rows and more."""
    assert rows(ratio=ratio, widths=(8,), batch=8) == 7504


def test_round_is_no_more_than_a_quarter_of_the_replay() -> None:
    small = SACConfig(hidden_sizes=(8,), batch_size=8)
    replay = ReplayConfig(capacity=400, learning_starts=50)
    config = replaying(algorithm=small, replay=replay)
    assert resolve(config, HALFCHEETAH, 2).rows_per_ticket == 104
    many = replaying(algorithm=small, replay=ReplayConfig(capacity=10, learning_starts=8))
    assert resolve(many, HALFCHEETAH, 2).rows_per_ticket == 8, "never less than a step"


def test_dqn_has_rounds_too() -> None:
    config = replaying(algorithm=DQNConfig(name="dqn", hidden_sizes=(64, 64), batch_size=64))
    assert 100 < resolve(config, CARTPOLE, 2).rows_per_ticket < 260


def test_run_that_goes_on_keeps_the_length_of_its_rounds() -> None:
    """Another ratio would choose another; other shards are refused at once."""
    saved = resolve(replaying(), HALFCHEETAH, 2)
    manifest = Manifest(1, 0, 0, identity(saved), {})
    changed = replaying(scheduler=SchedulerConfig(replay_ratio=0.01))
    assert resolve(changed, HALFCHEETAH, 2).steps != saved.steps
    continued = with_saved_steps(changed, manifest)
    assert continued.steps == saved.steps
    check_identity(manifest, identity(continued), Path("c"), "x.yaml")
    other = with_saved_steps(replaying(rollout=RolloutConfig(shards=3)), manifest)
    with pytest.raises(CheckpointError, match="rollout must be as in the checkpoint"):
        check_identity(manifest, identity(other), Path("c"), "x.yaml")
    given = replaying(rollout=RolloutConfig(shards=2, envs_per_shard=4, steps=5))
    assert with_saved_steps(given, manifest).steps == 5
    assert with_saved_steps(changed, replace(manifest, identity={})) == changed


# --- what is started before the environment is known ---------------------------------------------


@pytest.mark.parametrize(
    ("replay", "optimizers", "policies", "evaluates"),
    list(itertools.product([False, True], [1, 3], [0, 2], [False, True])),
)
def test_nodes_that_start_early_are_those_of_the_plan(
    replay: bool, optimizers: int, policies: int, evaluates: bool
) -> None:
    config = replaying() if replay else make_config()
    nodes = NodesConfig(
        optimizer=OptimizerNodeConfig(count=optimizers),
        policy=PolicyNodesConfig(count=max(policies, 1)),
        extra=(ExtraNodeConfig(node="a:Mine"),),
    )
    config = replace(
        config,
        nodes=nodes,
        policy=PolicyConfig(placement="node" if policies else "env"),
        evaluation=EvaluationConfig(every_env_steps=100 if evaluates else None),
    )
    plan = RunPlan(config, CARTPOLE, "", parts_of(config, 2), "numpy")
    expected = [role.name for role in expected_roles(config, 2)]
    assert len(expected) == len(set(expected))
    assert set(expected) == set(plan.names.all)


def test_every_optimizer_imports_torch_early_and_nobody_else() -> None:
    optimizer = OptimizerNodeConfig(count=2)
    extra = ExtraNodeConfig(node="a:Mine", name="optimizer-spy")
    config = replaying(
        algorithm=SACConfig(backend="torch"), nodes=NodesConfig(optimizer=optimizer, extra=(extra,))
    )
    roles = roles_of(config, 2)
    torch_at = {role.name: "torch" in warm(role, config) for role in expected_roles(config, 2)}
    assert [name for name, torch in torch_at.items() if torch] == ["optimizer-0", "optimizer-1"]
    assert warm(roles["replay-0"], config) == ("fast_core.nodes.replay.node",)
    assert warm(roles["optimizer-1"], config) == ("torch", "fast_core.nodes.learn.replay_optimizer")
    numpy = replace(config, algorithm=SACConfig(backend="numpy"))
    assert warm(roles["optimizer-1"], numpy) == ("fast_core.nodes.learn.replay_optimizer",)


def test_trial_of_the_placement_reserves_no_replay() -> None:
    """It is over in a second; the replay may be larger than half of the memory."""
    optimizer = OptimizerNodeConfig(count=2)
    config = replaying(
        policy=PolicyConfig(placement="node"), nodes=NodesConfig(optimizer=optimizer)
    )
    plan = trial_plan(resolve(config, HALFCHEETAH, 2), HALFCHEETAH)
    assert rows_per_log(plan) == 1
    networks = 4 * 2**20
    assert layout_of(structures(plan)).nbytes < networks
    assert plan.optimizers == plan.config.replay.slots == 1


@pytest.mark.parametrize("own", [True, False], ids=["its own", "none, as runs of before"])
def test_continued_run_keeps_the_horizon(tmp_path: Path, own: bool) -> None:
    before = RunDirectory(tmp_path)
    first = make_config(stop=StopConfig(env_steps=1000), horizon_env_steps=500 if own else None)
    before.write_config(config_file.dumps(first))
    longer = replace(first, stop=StopConfig(env_steps=4000), horizon_env_steps=None)
    assert with_horizon_of(before, longer).horizon == (500 if own else 1000)
    assert with_horizon_of(before, replace(longer, horizon_env_steps=7)).horizon == 7
    linear = replace(longer, algorithm=PPOConfig(learning_rate_schedule="linear"))
    with pytest.raises(ConfigError, match="horizon_env_steps=4000"):
        with_horizon_of(before, linear)
