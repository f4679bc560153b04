"""What the scheduler of a rerun is given, and when; what of its orders is carried out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from fast_core.errors import FastLoopError
from fast_core.events import (
    Collect,
    CommitCheckpoint,
    EndRun,
    Event,
    LauncherEvent,
    Save,
    Stop,
    StopRequested,
    Tell,
    Tick,
)
from fast_core.launcher.rerunning.driver import RerunDriver
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


def driving(*recorded: Event | LauncherEvent) -> tuple[RerunDriver, Hub]:
    driver = RerunDriver(following(*recorded))
    weights = SimpleNamespace(published=lambda: 0)
    plan = SimpleNamespace(names=SimpleNamespace(policy=()))
    driver.begin(plan, SimpleNamespace(weights=lambda: weights))  # type: ignore[arg-type]
    return driver, Hub()


def end(reason: str) -> list[Send]:
    return [Send(LAUNCHER, EndRun(reason, "Ctrl-C"))]  # type: ignore[arg-type]


def test_each_event_is_taken_at_its_recorded_time_before_the_next_is_due() -> None:
    driver, hub = driving(Tick(), ready(0, 0), Tick())
    assert driver.now_s() == 10.0
    hub.events = [ready(0, 0)]
    taken = [(type(event), driver.now_s()) for event in driver.receive(hub)]  # type: ignore[arg-type]
    assert [now_s for _, now_s in taken] == [11.0, 12.0, 13.0]
    assert driver.over() is not None and not driver.due(0.0)


def test_order_waits_until_it_may_be_carried_out_but_what_only_shows_does_not() -> None:
    driver, hub = driving(Tick(), ready(0, 1))
    driver.send(hub, METRICS, Stop("finished"))  # type: ignore[arg-type]
    driver.send(hub, "env-0", collect(0))  # type: ignore[arg-type]
    assert [node for node, _ in hub.sent] == [METRICS]
    assert len(list(driver.receive(hub))) == 1  # type: ignore[arg-type]
    assert [node for node, _ in hub.sent] == [METRICS], "version 1 is to act, 0 is published"
    driver._published = lambda: 1
    list(driver.receive(hub))  # type: ignore[arg-type]
    assert isinstance(hub.sent[-1][1], Collect)


def test_run_that_was_interrupted_ends_as_it_was_recorded() -> None:
    driver, hub = driving(StopRequested("Ctrl-C", save=True), Tick())
    ends = [driver.orders(end("interrupted"))[0].command for _ in driver.receive(hub)]  # type: ignore[arg-type]
    (command,) = ends  # nothing is taken after the end
    assert isinstance(command, EndRun) and command.reason == "finished"
    assert "until the recorded run ended" in command.text


def test_person_can_interrupt_a_rerun_which_then_saves_nothing() -> None:
    driver, _ = driving(Tick())
    assert driver.orders(end("interrupted")) == end("interrupted")
    assert not driver.saves


def test_callbacks_and_checkpoints_are_left_out() -> None:
    driver, _ = driving(Tick())
    left_out = [Tell("start"), Save(1, "1.tmp"), CommitCheckpoint(1, 0, 0, (), b"")]
    kept = Send("env-0", Stop("finished"))
    assert driver.orders([*(Send(LAUNCHER, each) for each in left_out), kept]) == [kept]


def test_rerun_that_can_not_go_on_says_what_is_missing() -> None:
    driver, hub = driving(ready(0, 0))
    assert list(driver.receive(hub)) == []  # type: ignore[arg-type]
    with pytest.raises(FastLoopError, match="recorded comes next RolloutReady"):
        driver.exhausted()
