"""What user code raises past `Exception` is caught where a node ends, also inline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.inline import InlineRun
from fast_core.launcher.processes import node_process
from fast_core.launcher.processes.start import probe_start
from fast_core.messages import Command, Event, Failed, LogLine, Ready
from fast_core.nodes.node import Node
from fast_core.run.names import Role
from fast_core.run.own_parts import OwnPart
from fast_core.run.plan import RunPlan
from tests.nodes.stage import CARTPOLE, Stage, make_config

START = probe_start(make_config())
HERE = "tests.launcher.test_boundaries"


class Gone(BaseException):
    """Hides what it can: no `Exception`, and no text."""

    def __str__(self) -> str:
        raise ValueError("no text")


GONE = "Gone: <its text can't be made>"


class LeavesInSetup(Node):
    def setup(self) -> None:
        raise Gone

    def failure_context(self) -> dict[str, str]:
        raise KeyError("place")

    def handle(self, command: Command) -> None: ...


class LeavesInWork(LeavesInSetup):
    def setup(self) -> None: ...

    def work(self) -> bool:
        raise Gone


class LeavesInClose(LeavesInSetup):
    def setup(self) -> None: ...

    def run(self) -> None: ...

    def close(self) -> None:
        raise Gone


class WellBehaved(LeavesInSetup):
    def setup(self) -> None: ...


class DoesNotFit(LeavesInSetup):
    def setup(self) -> None:
        raise CheckpointError("the checkpoint's network is another one")


class FitsNoLonger(LeavesInWork):
    def work(self) -> bool:
        raise ConfigError("update must return a report")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, make_config())


@pytest.mark.parametrize("kind", [LeavesInSetup, LeavesInWork, LeavesInClose])
def test_process_reports_it_and_fails(stage: Stage, kind: type[Node]) -> None:
    status = node_process._live(stage.context("metrics-0"), f"{HERE}:{kind.__name__}")
    assert status == node_process.FAILED_STATUS
    (failed,) = [event for event in stage.hub.receive() if not isinstance(event, Ready)]
    assert isinstance(failed, Failed)
    assert (failed.node, failed.error) == ("metrics-0", GONE)


@pytest.mark.parametrize(("kind", "refused"), [(DoesNotFit, True), (FitsNoLonger, False)])
def test_node_that_does_not_begin_refuses_the_run(
    stage: Stage, kind: type[Node], refused: bool
) -> None:
    node_process._live(stage.context("metrics-0"), f"{HERE}:{kind.__name__}")
    (failed,) = [event for event in stage.hub.receive() if isinstance(event, Failed)]
    assert failed.refused is refused


def test_probe_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object, **__: object) -> None:
        raise Gone

    quiet = SimpleNamespace(
        enable=lambda: None,
        dump_traceback_later=lambda *_, **__: None,
        cancel_dump_traceback_later=lambda: None,
    )
    monkeypatch.setattr(node_process, "faulthandler", quiet)  # pytest has its own use for it
    monkeypatch.setattr(node_process, "probe_all", leave)
    answer = node_process._probe(START)
    assert answer["error"] == GONE
    monkeypatch.setattr(node_process, "probe_all", lambda *_, **__: CARTPOLE)
    assert node_process._probe(START) == {"spec": CARTPOLE, "made_s": 0.0}


class RecordingShell:
    """Takes events, and ends the run with the first failure."""

    def __init__(self) -> None:
        self.end: object = None
        self.taken: list[Event] = []
        self.roster = SimpleNamespace(optional=frozenset[str]())
        self.turns = 0

    def take(self, event: Event) -> None:
        self.taken.append(event)
        self.end = event

    def receive(self) -> bool:
        return False

    def tick_if_due(self) -> None:
        self.turns -= 1
        if self.turns == 0:
            self.end = "over"

    def await_others(self, timeout_s: float) -> bool:
        return True

    def stop_nodes(self, nodes: tuple[str, ...]) -> None: ...


def plan_of(stage: Stage, **nodes: type[Node]) -> RunPlan:
    """A run of these nodes alone."""
    roles = (Role(f"{name}-0", f"{HERE}:{kind.__name__}") for name, kind in nodes.items())
    return replace(stage.plan, parts=(OwnPart(brought=tuple(roles)),))


def inline(stage: Stage, shell: RecordingShell, **nodes: type[Node]) -> InlineRun:
    quiet = SimpleNamespace(count=0, keep=lambda: None, check_forced=lambda: None)
    limits = SimpleNamespace(begin=lambda *_: None, rest=lambda: None)
    plan = plan_of(stage, **nodes)
    return InlineRun(plan, stage.memory, stage.hub, shell, quiet, lambda: 0.0, limits)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [LeavesInSetup, LeavesInWork, LeavesInClose])
def test_inline_run_reports_it(stage: Stage, kind: type[Node]) -> None:
    shell = RecordingShell()
    run = inline(stage, shell, metrics=kind)
    run.start()
    if kind is LeavesInWork:
        run.run()
    run.close()
    first = shell.taken[0]
    if kind is LeavesInClose:
        assert first == LogLine("metrics-0", "ERROR", f"{GONE} (while closing)")
    else:
        assert isinstance(first, Failed)
        assert first.error == GONE


@pytest.mark.parametrize("kind", [LeavesInSetup, LeavesInWork])
def test_inline_run_goes_on_without_an_optional_node_that_fails(
    stage: Stage, kind: type[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []
    monkeypatch.setattr(kind, "close", lambda node: closed.append(node.context.name))
    shell = RecordingShell()
    shell.roster.optional = frozenset({"metrics-0"})
    monkeypatch.setattr(shell, "take", shell.taken.append)
    run = inline(stage, shell, metrics=kind, optimizer=WellBehaved)
    run.start()
    assert run._nodes[-1].context.name == "optimizer-0", "those after it begin"
    shell.turns = 3
    run.run()
    (failed,) = (each for each in shell.taken if isinstance(each, Failed))
    assert failed.node == "metrics-0"
    assert closed.count("metrics-0") == 1, "and it is asked nothing more"
    run.close()
