"""Which nodes a run has, and that no message is sent to nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.config import EvaluationConfig
from fast_core.errors import TopologyError
from fast_core.launcher.topology import check, check_topology, scheduler_emits
from fast_core.launcher.wiring import node_class
from fast_core.messages import Command, Evaluate, Ready, Record
from fast_core.nodes.node import Node
from fast_core.run import parts
from tests.nodes.stage import make_config, make_run_plan


class Deaf(Node):
    """Consumes nothing."""

    def handle(self, command: Command) -> None: ...


class Babbling(Node):
    """Emits what only the scheduler sends."""

    emits = frozenset({Ready, Record})


def classes(plan) -> list[type[Node]]:
    return [node_class(node.node_class) for node in plan.begins_with]


def test_nodes_stand_in_the_order_of_the_plan(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    assert tuple(node.name for node in plan.begins_with) == plan.names.all
    assert [node.rank for node in plan.begins_with] == [0, 1, 0, 0, 0]


def test_run_without_evaluation_has_no_evaluator(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path, make_config(evaluation=EvaluationConfig(every_env_steps=None)))
    assert plan.names.all == ("env-0", "env-1", "optimizer-0", "metrics-0")
    assert Evaluate not in scheduler_emits(plan.roles.values())
    check(scheduler_emits(plan.roles.values()), classes(plan))


@pytest.mark.parametrize("every_env_steps", [100, None])
def test_own_nodes_fit_together(every_env_steps: int | None) -> None:
    check_topology(make_config(evaluation=EvaluationConfig(every_env_steps=every_env_steps)))


def test_topology_is_checked_before_any_process_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "METRICS", f"{__name__}:Deaf")
    with pytest.raises(TopologyError, match="sends Finish, but no node consumes it"):
        check_topology(make_config())


def test_command_that_nobody_consumes_is_explained(tmp_path: Path) -> None:
    plan = make_run_plan(tmp_path)
    without = [found for found in classes(plan) if found.__name__ != "EvaluatorNode"]
    with pytest.raises(TopologyError, match=r"sends Evaluate, but no node consumes it.*Add"):
        check(scheduler_emits(plan.roles.values()), [*without, Deaf])


def test_event_that_the_scheduler_does_not_take_is_explained() -> None:
    with pytest.raises(TopologyError, match="Babbling emits Record, but the scheduler does not"):
        check(frozenset(), [Babbling])
