"""What a run of several learners consists of."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fast_core.config import (
    DashboardConfig,
    DiagnosticsConfig,
    EvaluationConfig,
    PolicyConfig,
    RolloutConfig,
)
from fast_core.errors import ConfigError
from fast_core.launcher.prepare import scheduler_settings
from fast_core.run import parts
from fast_core.run.memory import RunMemory
from fast_core.run.plan import Learner, RunPlan
from fast_core.run.structures import structures
from tests.closing import until_the_end
from tests.nodes.stage import make_config, make_run_plan
from tests.process.two_learners import OTHER_SEED, two

Make = Callable[..., RunPlan]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Plans of runs with two learners, of three shards together."""
    monkeypatch.setattr(parts, "learns_of", two)

    def make_one(**changes: Any) -> RunPlan:
        given = {"evaluation": EvaluationConfig(every_env_steps=None)} | changes
        shards = RolloutConfig(shards=3, envs_per_shard=2, steps=8)
        return make_run_plan(tmp_path, make_config(rollout=shards, **given))

    return make_one


def test_second_learner_brings_its_optimizer_and_weights_and_takes_its_shards(make: Make) -> None:
    plan = make()
    assert plan.names.optimizers == ("optimizer-0",) and plan.names.others == ("optimizer-b-0",)
    assert plan.names.all[-1] == "optimizer-b-0", "the numbers of others are as they were"
    rows = {row.name: row for row in structures(plan)}
    assert rows["weights"].writer == "optimizer-0"
    assert rows["weights/b"].writer == "optimizer-b-0"
    assert [name for name in rows if name.startswith("rollouts/")] == [
        "rollouts/0",
        "rollouts/1",
        "rollouts/2",
    ]
    settings = scheduler_settings(plan, "")
    told = [(flow.key, flow.shards, flow.optimizers) for flow in settings.flows]
    assert told == [("", 1, ("optimizer-0",)), ("b", 2, ("optimizer-b-0",))]


def test_plan_of_a_learner_is_that_of_the_run_that_it_would_be_alone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = pickle.loads(pickle.dumps(make()))  # as a node gets it
    own = plan.of_node("optimizer-b-0")
    assert (own.key, own.shards) == ("b", range(1, 3)) == (plan.of_shard(2).key, range(1, 3))
    assert plan.of_node("optimizer-0").shards == range(1) == plan.of_shard(0).shards
    assert plan.of_node("env-0") is plan.of_node("metrics-0") is plan
    assert own.roles == plan.roles and own.of("") is own
    monkeypatch.undo()
    shards = RolloutConfig(shards=2, envs_per_shard=2, steps=8)
    evaluation = EvaluationConfig(every_env_steps=None)
    config = make_config(rollout=shards, seed=OTHER_SEED, evaluation=evaluation)
    alone = make_run_plan(tmp_path, config)
    assert own.learner_setup == alone.learner_setup
    assert own.config.rows_per_ticket == alone.config.rows_per_ticket == 32
    assert alone.of("") is alone is alone.of_shard(1), "the only one is the run"


def test_each_learner_publishes_on_a_board_of_its_own(make: Make) -> None:
    plan = make()
    memory = until_the_end(RunMemory.create(plan))
    for version, key in enumerate(plan.learners, 1):
        seen = memory.of(plan.of(key))
        seen.weights().publish(version, seen.parameters.empty().data)
    found = [memory.of(plan.of(key)).weights() for key in plan.learners]
    flat = memory.parameters.empty()
    assert [board.read_into(flat.data, newer_than=-1) for board in found] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "need"),
    [
        ({"policy": PolicyConfig(placement="node")}, "policy.placement=env"),
        ({"diagnostics": DiagnosticsConfig(schedule=True)}, "diagnostics.schedule=false"),
        ({"dashboard": DashboardConfig(enabled=True)}, "dashboard.enabled=false"),
    ],
)
def test_what_serves_the_first_learner_alone_is_refused(
    make: Make, changes: dict[str, Any], need: str
) -> None:
    with pytest.raises(ConfigError, match=f"the learners '', 'b' needs {need}$"):
        make(**changes)


def test_shards_that_are_nobodys_are_refused(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def gapped(config: Any) -> tuple[parts.Learn, ...]:
        first, second = two(config)
        own = second.own
        assert own is not None
        return first, parts.Learn("b", own=Learner("b", own.seed, range(2, 3), own.algorithm))

    monkeypatch.setattr(parts, "learns_of", gapped)
    with pytest.raises(ConfigError, match=r"divide its 3 shards .* got \[0, 2\]"):
        make()


def test_networks_of_two_learners_may_differ(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def wider(config: Any) -> tuple[parts.Learn, ...]:
        first, second = two(config)
        own = second.own
        assert own is not None
        algorithm = msgspec.structs.replace(own.algorithm, hidden_sizes=(8,))
        return first, parts.Learn("b", own=Learner("b", own.seed, own.shards, algorithm))

    monkeypatch.setattr(parts, "learns_of", wider)
    plan = make()
    rows = {row.name: row.nbytes for row in structures(plan)}
    assert rows["weights/b"] > rows["weights"]
    memory = until_the_end(RunMemory.create(plan))
    assert memory.of(plan.of("b")).parameters.nbytes > memory.parameters.nbytes
