"""What the scheduler of a rerun is given, and when; what of its orders is carried out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fast_core.errors import FastLoopError
from fast_core.launcher.rerunning.conducting import RerunConductor
from fast_core.messages import Collect, Event, Save, Stop
from fast_core.messages.launching import (
    CommitCheckpoint,
    EndRun,
    LauncherEvent,
    StopRequested,
    Tell,
    Tick,
)
from fast_core.run.names import METRICS
from fast_core.scheduler import LAUNCHER, Send
from tests.launcher.rerunning.test_following import collect, following, ready


class Hub:
    """Has what a test says and keeps what is sent."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sent: list[tuple[str, object]] = []

    def receive(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    def send(self, node: str, command: object) -> None:
        self.sent.append((node, command))


def conducting(*recorded: Event | LauncherEvent) -> tuple[RerunConductor, Hub]:
    conductor = RerunConductor(following(*recorded))
    weights = SimpleNamespace(published=lambda: 0)
    plan = SimpleNamespace(names=SimpleNamespace(policy=()))
    conductor.begin(plan, SimpleNamespace(weights=lambda: weights))  # type: ignore[arg-type]
    return conductor, Hub()


def end(reason: str) -> list[Send]:
    return [Send(LAUNCHER, EndRun(reason, "Ctrl-C"))]  # type: ignore[arg-type]


def test_each_event_is_taken_at_its_recorded_time_before_the_next_is_due() -> None:
    conductor, hub = conducting(Tick(), ready(0, 0), Tick())
    assert conductor.now_s() == 10.0
    hub.events = [ready(0, 0)]
    taken = [(type(event), conductor.now_s()) for event in conductor.receive(hub)]  # type: ignore[arg-type]
    assert [now_s for _, now_s in taken] == [11.0, 12.0, 13.0]
    assert conductor.over() is not None and not conductor.due(0.0)


def test_order_waits_until_it_may_be_carried_out_but_what_only_shows_does_not() -> None:
    conductor, hub = conducting(Tick(), ready(0, 1))
    conductor.send(hub, METRICS, Stop("finished"))  # type: ignore[arg-type]
    conductor.send(hub, "env-0", collect(0))  # type: ignore[arg-type]
    assert [node for node, _ in hub.sent] == [METRICS]
    assert len(list(conductor.receive(hub))) == 1  # type: ignore[arg-type]
    assert [node for node, _ in hub.sent] == [METRICS], "version 1 is to act, 0 is published"
    conductor._published = lambda: 1
    list(conductor.receive(hub))  # type: ignore[arg-type]
    assert isinstance(hub.sent[-1][1], Collect)


def test_run_that_was_interrupted_ends_as_it_was_recorded() -> None:
    conductor, hub = conducting(StopRequested("Ctrl-C", save=True), Tick())
    ends = [conductor.orders(end("interrupted"))[0].command for _ in conductor.receive(hub)]  # type: ignore[arg-type]
    (command,) = ends  # nothing is taken after the end
    assert isinstance(command, EndRun) and command.reason == "finished"
    assert "until the recorded run ended" in command.text


def test_person_can_interrupt_a_rerun_which_then_saves_nothing() -> None:
    conductor, _ = conducting(Tick())
    assert conductor.orders(end("interrupted")) == end("interrupted")
    assert not conductor.saves


def test_callbacks_and_checkpoints_are_left_out() -> None:
    conductor, _ = conducting(Tick())
    left_out = [Tell("start"), Save(1, "1.tmp"), CommitCheckpoint(1, 0, 0, (), b"")]
    kept = Send("env-0", Stop("finished"))
    assert conductor.orders([*(Send(LAUNCHER, each) for each in left_out), kept]) == [kept]


def test_rerun_that_can_not_go_on_says_what_is_missing() -> None:
    conductor, hub = conducting(ready(0, 0))
    assert list(conductor.receive(hub)) == []  # type: ignore[arg-type]
    with pytest.raises(FastLoopError, match="recorded comes next RolloutReady"):
        conductor.exhausted()
