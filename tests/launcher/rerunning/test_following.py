"""Following a record: what is held back, what is given when, and what is refused."""

from __future__ import annotations

from typing import get_args

import pytest

from fast_core.errors import FastLoopError
from fast_core.launcher.rerunning.entries import FROM_OUTSIDE, UNRECORDED, entry
from fast_core.launcher.rerunning.following import Follower
from fast_core.messages import (
    Collect,
    Command,
    Event,
    Failed,
    NodeExited,
    RolloutOrder,
    RolloutReady,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.messages.launching import LauncherEvent, Tick
from fast_core.run.schedule import FORMAT, Schedule, ScheduleHeader

HEADER = ScheduleHeader(
    format=FORMAT,
    fingerprint={},
    config="",
    checkpoint="",
    started_s=10.0,
    moments=(),
    callbacks_save=False,
    auto_degree=False,
)


def following(*events: Event | LauncherEvent, until: int | None = None) -> Follower:
    entries = [entry(event, 11.0 + index) for index, event in enumerate(events)]
    return Follower(Schedule(HEADER, entries), "", until)


def ready(shard: int, version: int, rollout_id: int = 1, returns: float = 1.0) -> RolloutReady:
    return RolloutReady(
        f"env-{shard}", shard, 1, 0, rollout_id, 0, version, (returns,), (int(returns),)
    )


def trained(ticket: int, version: int, updates: int = 4, checksum: int = 1) -> Trained:
    times = {"loss": 1.0, "update_ms": 5.0}
    return Trained("optimizer-0", ticket, version, updates, 0, 0.0, 0, times, checksum=checksum)


def collect(*shards: int, rollout_id: int = 1) -> Collect:
    return Collect(tuple(RolloutOrder(shard, 1, 0, rollout_id, 0, 0) for shard in shards))


def train(ticket: int) -> Train:
    return Train(ticket, (), 0, 4)


def test_events_are_given_in_recorded_order_at_recorded_times() -> None:
    follower = following(ready(1, 0), ready(0, 0), Tick())
    follower.hear(ready(0, 0))
    assert follower.next() is None
    follower.hear(ready(1, 0))
    assert (follower.next(), follower.now_s) == (ready(1, 0), 11.0)
    assert (follower.next(), follower.now_s) == (ready(0, 0), 12.0)
    assert isinstance(follower.next(), Tick)
    assert follower.over is not None


def test_rollout_is_collected_while_its_version_is_the_newest() -> None:
    follower = following(ready(0, 0), trained(0, 4), ready(1, 4), ready(2, 0))
    follower.hold("env-0", collect(0))
    follower.hold("env-1", collect(1))
    follower.hold("optimizer-0", train(0))
    follower.hold("env-2", collect(2))
    assert [node for node, _ in follower.release(0)] == ["env-0", "env-2"]
    follower.hear(ready(0, 0))
    assert follower.release(0) == []  # shard 2 has yet to act with version 0
    follower.hear(ready(2, 0))
    assert follower.release(0) == [("optimizer-0", train(0))]
    follower.hear(trained(0, 4))
    assert follower.release(4) == [("env-1", collect(1))]


def test_tickets_are_trained_on_one_at_a_time() -> None:
    follower = following(trained(0, 4), trained(1, 4, updates=0), trained(2, 8))
    for ticket in range(3):
        follower.hold("optimizer-0", train(ticket))
    assert follower.release(0) == [("optimizer-0", train(0))]
    assert follower.release(0) == []
    follower.hear(trained(0, 4))
    assert follower.release(4) == [("optimizer-0", train(1))]


def test_ticket_that_publishes_nothing_waits_for_no_reader() -> None:
    follower = following(trained(0, 0, updates=0), ready(0, 0))
    follower.hold("optimizer-0", train(0))
    assert follower.release(0) == [("optimizer-0", train(0))]


@pytest.mark.parametrize("orders", [(Snapshot(1), train(0)), (train(0), Snapshot(1))])
def test_snapshot_holds_the_recorded_version(orders: tuple[Command, ...]) -> None:
    """And passes training that waits for it: with replay it is asked for amid a ticket."""
    taken = SnapshotTaken("optimizer-0", 1, 0, 0)
    follower = following(taken, trained(0, 4))
    for order in orders:
        follower.hold("optimizer-0", order)
    assert follower.release(0) == [("optimizer-0", Snapshot(1))]
    follower.hear(taken)
    assert follower.release(0) == [("optimizer-0", train(0))]


def test_training_waits_for_the_passes_of_policy_nodes_with_what_it_replaces() -> None:
    entries = [entry(trained(0, 4), 11.0)]
    passes = {"policy-0": [0, 0, 4], "policy-1": [0]}
    follower = Follower(Schedule(HEADER, entries), "", None, passes)
    follower.hold("env-0", collect(0))
    follower.hold("optimizer-0", train(0))
    assert follower.release(0, {"policy-0": 1, "policy-1": 1}) == [("env-0", collect(0))]
    assert follower.release(0, {"policy-0": 2, "policy-1": 0}) == []
    done = {"policy-0": 2, "policy-1": 1}
    assert follower.release(0, done) == [("optimizer-0", train(0))]
    assert "the record of policy-1" in str(follower.exhausted(done))


def test_order_that_was_never_carried_out_stays_so() -> None:
    follower = following(ready(0, 0))
    follower.hold("env-0", collect(0, 5))
    assert follower.release(0) == [("env-0", collect(0))]
    follower.hear(ready(0, 0))
    assert follower.release(0) == []


def test_times_come_from_the_record_and_results_from_the_rerun() -> None:
    follower = following(trained(0, 4))
    again = trained(0, 4)
    follower.hear(Trained(**{**_fields(again), "metrics": {"loss": 1.0, "update_ms": 900.0}}))
    assert follower.next() == again


def _fields(event: Trained) -> dict[str, object]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


@pytest.mark.parametrize(
    ("recorded", "again", "says"),
    [
        (
            trained(0, 4),
            trained(0, 4, checksum=2),
            "ticket 0, to version 4, gave other weights than",
        ),
        (trained(0, 4), trained(0, 3, updates=3), "gave version 3, not 4, than recorded"),
        (ready(0, 0), ready(0, 0, returns=2.0), "rollout 1 of shard 0 .* has other episodes"),
        (ready(0, 0), ready(0, 4), "acted with version 4, recorded is 0"),
    ],
)
def test_what_comes_out_otherwise_is_named(recorded: Event, again: Event, says: str) -> None:
    follower = following(recorded)
    follower.hear(again)
    with pytest.raises(FastLoopError, match=says):
        follower.next()


def test_until_ends_with_the_ticket_of_that_update() -> None:
    events = (trained(0, 4), ready(0, 0), trained(1, 8), trained(2, 12))
    follower = following(*events, until=5)
    for event in events:
        follower.hear(event)
        follower.next()
    assert (follower.trained, follower.version) == (2, 8)
    assert follower.over == "ran again as recorded: 2 tickets, to update 8"


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (NodeExited("env-0", "was killed by SIGKILL"), "env-0 was killed by SIGKILL"),
        (
            Failed("callbacks", "calling cb:Stop.on_evaluation", "ValueError: no", "stack", {}),
            "callbacks failed while calling cb:Stop.on_evaluation: ValueError: no",
        ),
    ],
)
def test_record_that_ends_with_a_death_or_an_error_of_a_callback_says_so(
    last: Event, says: str
) -> None:
    follower = following(trained(0, 4), last)
    follower.hear(trained(0, 4))
    follower.next()
    assert follower.over is not None
    assert follower.over.endswith(f"1 ticket, to update 4; {says}")


def test_every_event_from_outside_is_given_again_or_not_recorded() -> None:
    assert set(get_args(LauncherEvent)) <= {*FROM_OUTSIDE, *UNRECORDED}


def death(doing: str) -> Failed:
    return Failed("env-0", doing, "env-0 was killed by SIGKILL", "", {})


@pytest.mark.parametrize(("doing", "collects"), [("stepping", True), ("saving", False)])
def test_rollout_in_which_a_node_died_is_begun_once_more(doing: str, collects: bool) -> None:
    entries = [entry(death(doing), 11.0, version=4)]
    follower = Follower(Schedule(HEADER, entries), "")
    follower.hold("env-0", collect(0))
    follower.hold("optimizer-0", train(0))
    assert (follower.over is None) is collects
    assert follower.release(0) == [("optimizer-0", train(0))]
    follower.hear(trained(0, 4))
    assert follower.release(4) == ([("env-0", collect(0))] if collects else [])
    follower.hear(ready(0, 4))
    assert follower.over is not None
    assert follower.over.endswith("env-0 was killed by SIGKILL")
