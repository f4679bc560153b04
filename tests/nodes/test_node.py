"""The base of every node, with a node that only notes what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.config import DiagnosticsConfig
from fast_core.memory import StatsColumn
from fast_core.messages import Command, Save, Stop
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.run.structures import SPAN
from tests.nodes.stage import Stage, make_config


class Notes(Node):
    """Notes commands; has ``left`` units of work."""

    consumes = frozenset({Save})

    def __init__(self, context: NodeContext) -> None:
        super().__init__(context)
        self.seen: list[Command] = []
        self.left = 0

    def handle(self, command: Command) -> None:
        self.seen.append(command)

    def work(self) -> bool:
        self.left -= 1
        return self.left >= 0


class Writer(Notes):
    finishes_inbox = True


def send(stage: Stage, *commands: Command) -> None:
    for command in commands:
        stage.hub.send("metrics-0", command)


def test_step_takes_everything_and_one_unit_of_work(stage: Stage) -> None:
    node = Notes(stage.context("metrics-0"))
    assert not node.step()
    send(stage, Save(1, ""), Save(2, ""))
    node.left = 2
    assert node.step()
    assert node.seen == [Save(1, ""), Save(2, "")]
    assert node.left == 1
    assert node.step()
    assert not node.step()


def test_stop_comes_before_what_is_still_in_the_inbox(stage: Stage) -> None:
    node = Notes(stage.context("metrics-0"))
    send(stage, Save(1, ""), Stop("interrupted"), Save(2, ""))
    node.run()
    assert node.seen == []


def test_stop_behind_other_commands_is_obeyed_in_the_same_step(stage: Stage) -> None:
    node = Notes(stage.context("metrics-0"))
    send(stage, Save(1, ""), Stop("interrupted"))
    assert node.step()
    assert node.seen == []


def test_node_that_finishes_its_inbox_handles_what_came_before_the_stop(stage: Stage) -> None:
    node = Writer(stage.context("metrics-0"))
    send(stage, Save(1, ""), Stop("finished"), Save(2, ""))
    node.run()
    assert node.seen == [Save(1, "")]


def test_time_is_accounted_to_states_and_recorded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000]
    monkeypatch.setattr("fast_core.nodes.node.time.monotonic_ns", lambda: clock[0])
    node = Notes(stage.context("metrics-0"))
    words = node.context.stats.words
    clock[0] = 1100
    node.enter(NodeState.WAITING, "waiting")
    clock[0] = 1300
    with node.state(NodeState.WRITING, "writing"):
        assert words[StatsColumn.STATE] == NodeState.WRITING
        assert words[StatsColumn.STATE_SINCE_NS] == 1300
        assert node.doing == "writing"
        clock[0] = 1350
    assert node.doing == "waiting"
    assert words[StatsColumn.WAITING_NS] == 300
    assert words[StatsColumn.BUSY_NS] == 50
    spans = [SPAN.unpack(node.context.spans.try_pop() or b"") for _ in range(3)]
    assert spans == [
        (NodeState.STARTING, 1000, 1100),
        (NodeState.WAITING, 1100, 1300),
        (NodeState.WRITING, 1300, 1350),
    ]


def test_failure_in_a_state_still_says_what_was_done(stage: Stage) -> None:
    node = Notes(stage.context("metrics-0"))
    with pytest.raises(ValueError, match="x"), node.state(NodeState.WRITING, "writing"):
        raise ValueError("x")
    assert node.doing == "writing"


def test_injected_delay_is_drawn_per_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, make_config(diagnostics=DiagnosticsConfig(delay_ms=5.0)))
    slept: list[float] = []
    monkeypatch.setattr("fast_core.nodes.node.time.sleep", slept.append)
    node = Notes(stage.context("metrics-0"))
    send(stage, *(Save(number, "") for number in range(50)))
    node.step()
    assert len(slept) == 50
    assert 0 <= min(slept) < 0.001
    assert 0.004 < max(slept) <= 0.005
