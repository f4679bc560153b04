"""From a configuration to a plan: what `auto` becomes, what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import (
    AlgorithmConfig,
    AtariConfig,
    CheckpointConfig,
    EnvironmentConfig,
    EnvNodesConfig,
    EvaluationConfig,
    ExtraNodeConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    PolicyNodesConfig,
    ReplayConfig,
    RestartsConfig,
    RolloutConfig,
    SchedulerConfig,
    StopConfig,
    SupervisionConfig,
    WrapperConfig,
)
from fast_core.config.rules import problems
from fast_core.errors import ConfigError
from fast_core.launcher.prepare import (
    choosing_nothing_inline,
    identity,
    make_plan,
    resolve,
    scheduler_settings,
)
from fast_core.launcher.sizing.auto_degree import with_room
from fast_core.memory import MemoryAvailable
from tests.nodes.stage import CARTPOLE, make_config, make_run_plan

LARGE = PPOConfig(name="ppo", hidden_sizes=(2048, 2048), minibatch_size=16)


def test_first_limit_on_env_steps_becomes_the_horizon() -> None:
    first = resolve(make_config(stop=StopConfig(env_steps=100)), CARTPOLE, 1)
    assert first.horizon_env_steps == 100
    again = msgspec.structs.replace(first, stop=StopConfig(env_steps=200))
    assert resolve(again, CARTPOLE, 1).progress(50) == 0.5


def test_auto_threads_grow_only_with_the_update() -> None:
    assert resolve(make_config(), CARTPOLE, 8).nodes.optimizer.threads == 1
    assert resolve(make_config(algorithm=LARGE), CARTPOLE, 8).nodes.optimizer.threads == 8


@pytest.mark.parametrize(
    ("policy", "device", "backend"),
    [
        (PolicyConfig(), "cpu", "numpy"),
        (PolicyConfig(precision="bf16"), "cpu", "torch"),
        (PolicyConfig(placement="node"), "cuda", "torch"),
        (PolicyConfig(placement="node"), "cpu", "numpy"),
        (PolicyConfig(placement="env"), "cuda", "numpy"),  # no policy node, so no use of a device
    ],
)
def test_policy_acts_with_torch_where_numpy_can_not(
    policy: PolicyConfig, device: str, backend: str
) -> None:
    config = make_config(policy=policy, nodes=NodesConfig(policy=PolicyNodesConfig(device=device)))
    assert resolve(config, CARTPOLE, 1).policy.backend == backend


def test_numpy_is_refused_for_convolutions_before_anything_starts() -> None:
    pixels = SpaceSpec("box", (84, 84), "uint8", low=(0.0,), high=(255.0,))
    environment = msgspec.structs.replace(CARTPOLE, observation=pixels)
    for backend, allowed in (("auto", True), ("torch", True), ("numpy", False)):
        config = make_config(policy=PolicyConfig(backend=backend))
        if allowed:
            assert resolve(config, environment, 2).policy.backend == "torch"
        else:
            with pytest.raises(ConfigError, match=r"policy\.backend must be auto or torch"):
                resolve(config, environment, 2)


def test_what_is_given_stays() -> None:
    nodes = NodesConfig(env=EnvNodesConfig(count=1), optimizer=OptimizerNodeConfig(threads=3))
    policy = PolicyConfig(backend="torch")
    algorithm = PPOConfig(normalize_actions=False)
    config = make_config(nodes=nodes, policy=policy, horizon_env_steps=7, algorithm=algorithm)
    assert resolve(config, CARTPOLE, 8) == config


def test_what_auto_of_an_algorithm_stands_for_is_kept_by_the_run() -> None:
    action = SpaceSpec("box", (1,), "float32", low=(900.0,), high=(1000.0,))
    far = msgspec.structs.replace(CARTPOLE, action=action)
    for environment, wanted in ((CARTPOLE, False), (far, True)):
        resolved = resolve(make_config(), environment, 8).algorithm
        assert isinstance(resolved, PPOConfig) and resolved.normalize_actions is wanted


def test_resolved_configuration_resolves_to_itself_elsewhere() -> None:
    resolved = resolve(make_config(), CARTPOLE, 2)
    assert resolve(resolved, CARTPOLE, 64) == resolved


def test_unresolved_configuration_makes_no_plan() -> None:
    with pytest.raises(ConfigError, match="resolve"):
        make_plan(make_config(), CARTPOLE, "", None, None)


def test_algorithm_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    large = PPOConfig(name="ppo", minibatch_size=10_000)
    with pytest.raises(ConfigError, match="minibatch_size"):
        make_run_plan(tmp_path, make_config(algorithm=large))


def test_environment_that_does_not_repeat_is_refused_where_resume_must_be_exact() -> None:
    once = msgspec.structs.replace(CARTPOLE, repeatable=False)
    config = resolve(make_config(), once, 1)
    with pytest.raises(ConfigError, match=r"does not repeat.*checkpoint\.exact=never"):
        make_plan(config, once, "", None, None)
    never = msgspec.structs.replace(config, checkpoint=CheckpointConfig(exact="never"))
    make_plan(never, once, "", None, None)
    without = CheckpointConfig(every_updates=None, at_end=False)
    make_plan(msgspec.structs.replace(config, checkpoint=without), once, "", None, None)
    ahead = SchedulerConfig(off_policy_degree=1)
    make_plan(msgspec.structs.replace(config, scheduler=ahead), once, "", None, None)


def test_scheduler_is_told_what_the_configuration_says(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    settings = scheduler_settings(plan, "folder")
    assert settings.nodes == (
        "optimizer-0",
        "env-0",
        "env-1",
        "evaluator-0",
        "metrics-0",
    )
    assert settings.rows_per_rollout == 16
    assert settings.rows_per_ticket == 32
    assert settings.updates_granted == 2
    assert settings.slots_per_shard == 1
    assert settings.stop_env_steps == 1000
    assert settings.checkpoint_directory == "folder"


def test_identity_is_what_results_depend_on() -> None:
    base = identity(make_config())
    assert identity(make_config(name="other")) == base
    assert identity(make_config(seed=1)) != base
    rollout = RolloutConfig(shards=4, envs_per_shard=1, steps=8)
    assert identity(make_config(rollout=rollout)) != base
    environments = [{"backend": "envpool"}, {"frame_stack": 2}, {"frame_skip": 2}]
    environments += [{"wrappers": (WrapperConfig(name="a:B"),)}, {"backend": "gymnasium_vector"}]
    environments += [{"atari": AtariConfig()}, {"action_mask": "mask"}, {"kwargs": {"a": 1}}]
    for options in environments:
        environment = EnvironmentConfig(id="CartPole-v1", **options)
        assert identity(make_config(environment=environment)) != base, options
    nodes = NodesConfig(extra=(ExtraNodeConfig(node="bonus:Bonus"),))
    assert identity(make_config(nodes=nodes)) != base
    assert identity(make_config(nodes=NodesConfig(env=EnvNodesConfig(count=1)))) == base


def test_what_replays_keep_of_memories_belongs_to_a_run() -> None:
    def said(**changes: object) -> str | None:
        return identity(make_config(algorithm=DQNConfig(**changes))).get("algorithm.recurrent")  # type: ignore[arg-type]

    assert said() == said(recurrent_size=9) == '"none"'
    kept = said(recurrent="gru")
    assert kept not in ('"none"', said(recurrent="lstm"), said(recurrent="gru", recurrent_size=9))
    assert kept == said(recurrent="gru", burn_in=3) != said(recurrent="gru", stored_state=False)
    assert "algorithm.recurrent" not in identity(make_config())


@pytest.mark.parametrize("given", [{"mode": "sync"}, {"enable_async_eval": False}])
def test_scheduler_waits_for_evaluations_whichever_name_says_so(
    tmp_path: Path, given: dict[str, object]
) -> None:
    config = make_config(evaluation=EvaluationConfig(**given))  # type: ignore[arg-type]
    assert scheduler_settings(make_run_plan(tmp_path, config), "").eval_mode == "sync"


# --- the off-policy degree -----------------------------------------------------------------------


@pytest.mark.parametrize("asked", [-1, "auto"])
def test_run_that_chooses_its_degree_has_room_for_the_largest(tmp_path: Path, asked: int) -> None:
    auto = SchedulerConfig(off_policy_degree=asked, max_auto_degree=6)
    settings = scheduler_settings(make_run_plan(tmp_path, make_config(scheduler=auto)), "")
    assert (settings.auto_degree, settings.degree, settings.slots_per_shard) == (True, 6, 7)


def test_inline_there_is_nothing_to_choose() -> None:
    auto = SchedulerConfig(off_policy_degree="auto")
    config = make_config(scheduler=auto, mode="inline")
    assert choosing_nothing_inline(config).scheduler.off_policy_degree == 0
    for other in (make_config(scheduler=auto), make_config(mode="inline")):
        assert choosing_nothing_inline(other) is other


def test_no_more_room_is_taken_than_an_eighth_of_the_free_memory(tmp_path: Path) -> None:
    auto = SchedulerConfig(off_policy_degree=-1, max_auto_degree=100)
    plan = make_run_plan(tmp_path, make_config(scheduler=auto))

    def most(ram: int, cgroup: int | None = None) -> int:
        return with_room(plan, MemoryAvailable(ram, cgroup, None)).config.degree

    assert most(10**9) == 100
    assert most(0) == 1
    some = most(8 * 20 * 4000, None)
    assert 1 < some < 100
    assert most(10**9, 8 * 20 * 4000) == some
    fixed = make_run_plan(
        tmp_path / "fixed", make_config(scheduler=SchedulerConfig(off_policy_degree=9))
    )
    assert with_room(fixed, MemoryAvailable(0, None, None)) is fixed


@pytest.mark.parametrize(
    ("capacity", "batch", "degree"),
    [(10_000, 32, 31), (1_000_000, 256, 390), (1000, 256, 1), (10**7, 32, 1000)],
)
def test_legacy_auto_divides_the_replay_by_the_batch(
    capacity: int, batch: int, degree: int
) -> None:
    config = make_config(
        algorithm=DQNConfig(batch_size=batch),
        replay=ReplayConfig(capacity=capacity),
        scheduler=SchedulerConfig(off_policy_degree="legacy-auto"),
    )
    assert config.degree == degree and not config.scheduler.auto


def test_legacy_auto_divides_a_tickets_rows_by_the_minibatch() -> None:
    config = make_config(
        rollout=RolloutConfig(shards=2, envs_per_shard=8, steps=128),
        algorithm=PPOConfig(minibatch_size=64),
        scheduler=SchedulerConfig(off_policy_degree="legacy-auto"),
    )
    assert config.degree == 3


class Bare(AlgorithmConfig, frozen=True, kw_only=True):
    name: str = "bare"


def test_legacy_auto_is_refused_where_there_is_no_batch() -> None:
    legacy = SchedulerConfig(off_policy_degree="legacy-auto")
    found = problems(make_config(algorithm=Bare(), scheduler=legacy))
    assert [problem.key for problem in found] == ["scheduler.off_policy_degree"]
    assert "algorithm.minibatch_size" in found[0].must and "'bare' has none" in found[0].must
    assert not problems(make_config(algorithm=Bare()))


def test_run_that_came_back_has_what_is_left_of_its_budgets(tmp_path: Path) -> None:
    restarts = RestartsConfig(env=3, policy=1, optimizer=2)
    changes = {"policy": PolicyConfig(placement="node")}
    changes |= {"supervision": SupervisionConfig(restarts=restarts)}
    plan = make_run_plan(tmp_path, make_config(**changes))
    settings = scheduler_settings(plan, "", came_back=1, deaths={"env-0": 1, "env-1": 1})
    left = {budget.kind: budget.deaths for budget in settings.restarts}
    assert (left["env"], left["policy"], settings.comebacks) == (1, 1, 1)
    left = {
        each.kind: each.deaths
        for each in scheduler_settings(plan, "", deaths={"env-0": 9}).restarts
    }
    assert left["env"] == 0
    assert settings.back and not scheduler_settings(plan, "").back
