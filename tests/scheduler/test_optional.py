"""Nodes that the run goes on without: it waits for none of them, and ends with none."""

from __future__ import annotations

import pytest

from fast_core.messages import Envelope, Failed, NodeExited, Ready, Saved
from fast_core.messages.launching import Decision, EndRun, LauncherEvent, Respawn, Tick
from fast_core.scheduler import Scheduler, Send
from fast_core.scheduler.optional import DEATHS
from fast_core.scheduler.settings import Route
from tests.scheduler.simulation import make_settings

GONE = NodeExited("page", "was killed by SIGKILL", reaped=True)
NEWS = Envelope("mine:News", "speaker", b"x")


def begun(**changes: object) -> Scheduler:
    """A run that trains although its page was never ready."""
    settings = make_settings(optional=("page",), **changes)  # type: ignore[arg-type]
    scheduler = Scheduler(settings)
    for node in settings.nodes:
        scheduler.handle(Ready(node, 1), 0.0)
    assert scheduler.statistics().phase == "training"
    return scheduler


def said(sends: list[Send]) -> list[tuple[str, str]]:
    return [(each.what, each.why) for _, each in sends if isinstance(each, Decision)]


def respawned(sends: list[Send]) -> list[Respawn]:
    return [command for _, command in sends if isinstance(command, Respawn)]


def test_run_begins_without_it_and_before_it_survives_its_death() -> None:
    settings = make_settings(optional=("page",))
    scheduler = Scheduler(settings)
    assert scheduler.survives(GONE)
    sends = scheduler.handle(GONE, 0.0)
    assert respawned(sends) == [Respawn("page", 2)]
    ((what, why),) = said(sends)
    assert what == "node gone"
    assert why.endswith("the run goes on without it and starts it anew now")
    for node in settings.nodes:
        scheduler.handle(Ready(node, 1), 0.0)
    assert scheduler.statistics().phase == "training"
    assert said(scheduler.handle(Ready("page", 1), 0.0)) == [("node back", "page is ready again")]


def test_death_that_is_not_certain_starts_no_second_process() -> None:
    scheduler = begun()
    uncertain = NodeExited("page", "is not connected")
    assert scheduler.survives(uncertain)
    assert scheduler.handle(uncertain, 0.0) == []


def test_one_that_always_dies_is_started_ever_more_rarely_and_then_no_more() -> None:
    scheduler, now_s, waits = begun(backoff_s=1.0, max_backoff_s=4.0), 0.0, []
    for _ in range(DEATHS):
        sends = scheduler.handle(GONE, now_s)
        died_s = now_s
        while not respawned(sends):
            now_s = scheduler.next_wakeup_s() or now_s
            sends = scheduler.handle(Tick(), now_s)
        waits.append(now_s - died_s)
        scheduler.handle(Ready("page", 1), now_s)
    assert waits == [0, 1, 2, 4, 4]
    ((what, why),) = said(scheduler.handle(GONE, now_s))
    assert what == "node gone"
    assert "starts it no more: it has died 6 times in a row" in why
    assert scheduler.survives(GONE), "the news of it may come twice"
    assert respawned(scheduler.handle(GONE, now_s)) == []
    assert scheduler.statistics().phase == "training"


def test_life_that_lasted_gives_all_its_deaths_back() -> None:
    scheduler, now_s = begun(backoff_s=1.0, max_backoff_s=4.0), 0.0
    for _ in range(DEATHS + 3):
        scheduler.handle(Ready("page", 1), now_s)
        now_s += 4.0
        sends = scheduler.handle(GONE, now_s)
        assert len(respawned(sends)) == 1, "and at once, like the first time"


def test_what_it_raises_in_one_process_leaves_it_away_for_good() -> None:
    scheduler = begun()
    sends = scheduler.handle(Failed("page", "serving", "OSError: no", "", {}), 0.0)
    ((what, why),) = said(sends)
    assert (what, respawned(sends)) == ("node gone", [])
    assert why == "page failed while serving: OSError: no; the run goes on without it"


@pytest.mark.parametrize("fault", [Saved("page", 3), Envelope("mine:Other", "page", b"")])
def test_what_it_must_not_send_is_refused_and_told_once(fault: LauncherEvent) -> None:
    scheduler = begun()
    told = [said(scheduler.handle(fault, 0.0)) for _ in range(3)]
    assert [len(each) for each in told] == [1, 0, 0]
    assert told[0][0][0] == "refused"
    assert scheduler.statistics().stale_events == 3


def test_messages_reach_it_only_while_it_is_there() -> None:
    route = Route("mine:News", ("speaker",), ("page",))
    scheduler = begun(routes=(route,), other_nodes=("speaker",))
    assert scheduler.handle(NEWS, 0.0) == []
    scheduler.handle(Ready("page", 1), 0.0)
    assert scheduler.handle(NEWS, 0.0) == [("page", NEWS)]
    scheduler.handle(GONE, 0.0)
    assert scheduler.handle(NEWS, 0.0) == []


def test_messages_reach_it_no_more_when_it_was_given_up_in_one_process() -> None:
    route = Route("mine:News", ("speaker",), ("page",))
    scheduler = begun(routes=(route,), other_nodes=("speaker",))
    scheduler.handle(Ready("page", 1), 0.0)
    scheduler.handle(Failed("page", "serving", "OSError: no", "", {}), 0.0)
    assert scheduler.handle(NEWS, 0.0) == [], "nobody would ever take it out of its queue"


def test_its_comings_and_goings_hide_no_standstill() -> None:
    scheduler, now_s = begun(work_timeout_s=60.0, repeat_timeout_s=60.0), 0.0
    scheduler.handle(Ready("page", 1), now_s)
    while now_s < 60.0:
        now_s = scheduler.next_wakeup_s() or now_s
        sends = scheduler.handle(Tick(0.0), now_s)  # no node has been at work since the beginning
        scheduler.handle(GONE, now_s)
        scheduler.handle(Ready("page", 1), now_s)
    assert any(isinstance(command, EndRun) for _, command in sends)
    assert now_s == 60.0


def test_its_death_does_not_pass_for_that_of_a_node_that_training_needs() -> None:
    scheduler = begun()
    sends = scheduler.handle(NodeExited("env0", "was killed", reaped=True), 0.0)
    assert any(isinstance(command, EndRun) for _, command in sends)
