"""Grants: exact, carried, and a function of what is merged alone."""

from __future__ import annotations

from fractions import Fraction

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fast_core.scheduler import Scheduler
from fast_core.scheduler.ratio import Ratio
from fast_core.scheduler.state import SavedState
from tests.scheduler.simulation import make_settings

RATIOS = st.sampled_from(["0.1", "0.333", "1/3", "1", "2.5", "7/3", "1000", "0.0001"])


def make_ratio(
    text: str, *, starts: int = 0, rows: int = 10, state: SavedState | None = None, **more: bool
) -> Ratio:
    """A ticket is ``2 * rows`` environment steps."""
    settings = make_settings(
        replay="replay", replay_ratio=text, learning_starts=starts, rows_per_rollout=rows, **more
    )
    return Ratio(settings, state)


def fields(**changes: object) -> dict[str, object]:
    """What `Scheduler.state` gives before anything was collected, with changes."""
    found: dict[str, object] = msgspec.msgpack.decode(Scheduler(make_settings()).state())
    assert changes.keys() <= found.keys()
    return found | changes


def make_state(**changes: object) -> SavedState:
    return SavedState(msgspec.msgpack.encode(fields(**changes)))


def test_a_decimal_is_taken_as_written_for_ever() -> None:
    """0.1 in binary is a little more; after 1e17 steps that alone would be half a step."""
    assert make_ratio("0.1").granted_by(10**17 + 9) == 10**16


@given(RATIOS, st.integers(0, 500), st.integers(1, 40), st.integers(1, 200))
def test_grants_are_the_floor_of_what_is_due(
    text: str, starts: int, rows: int, tickets: int
) -> None:
    ratio, due, granted = make_ratio(text, starts=starts, rows=rows), Fraction(0), 0
    for ticket in range(tickets):
        before, after = 2 * rows * ticket, 2 * rows * (ticket + 1)
        due += sum(Fraction(text) for step in range(before, after) if step >= starts)
        granted += ratio.grant(before, 2 * rows)
        assert granted <= due < granted + 1
        assert granted == ratio.granted_by(after)


@given(RATIOS, st.integers(0, 90), st.integers(0, 20), st.integers(-3, 40))
def test_tickets_for_updates_are_the_fewest_that_grant_them(
    text: str, starts: int, settled: int, updates: int
) -> None:
    ratio = make_ratio(text, starts=starts)
    found = ratio.tickets_for(updates, 20 * settled)
    grants = [ratio.granted_by(20 * (settled + n)) - ratio.granted_by(20 * settled)
              for n in (found - 1, found)]  # fmt: skip
    assert grants[1] >= updates
    assert found == 0 or grants[0] < updates


@given(st.integers(0, 9), st.integers(1, 50), st.integers(0, 30), st.integers(-2, 60))
def test_learning_from_rollouts_grants_the_same_every_time(
    granted: int, rows: int, ticket: int, updates: int
) -> None:
    ratio = Ratio(make_settings(updates_granted=granted, rows_per_rollout=rows), None)
    assert ratio.grant(2 * rows * ticket, 2 * rows) == granted
    if granted:
        assert ratio.tickets_for(updates, 2 * rows * ticket) == max(0, -(-updates // granted))


def test_resumed_with_its_contents_the_replay_goes_on() -> None:
    state = make_state(
        env_steps=60, updates=5, learning_from=17, updates_before=2, replay_kept=True
    )
    ratio = make_ratio("0.7", starts=1000, state=state)
    assert (ratio.learning_from, ratio.state().updates_before) == (17, 2)
    assert ratio.grant(60, 20) == 63 * 7 // 10 - 43 * 7 // 10


def test_resumed_without_its_contents_the_replay_is_filled_anew_first() -> None:
    state = make_state(env_steps=60, updates=5, learning_from=17, replay_kept=False)
    ratio = make_ratio("1", starts=30, state=state)
    assert (ratio.learning_from, ratio.state().updates_before) == (90, 5)
    assert [ratio.grant(steps, 20) for steps in (60, 80, 100)] == [0, 10, 20]


def test_what_the_checkpoint_holds_counts_and_not_what_the_next_one_will() -> None:
    kept = make_state(env_steps=60, learning_from=17, replay_kept=True)
    assert make_ratio("1", starts=30, state=kept, replay_kept=False).learning_from == 17
    empty = make_state(env_steps=60, learning_from=17, replay_kept=False)
    assert make_ratio("1", starts=30, state=empty, replay_kept=True).learning_from == 90


def test_ratio_kept_is_what_was_committed_since_learning_began() -> None:
    ratio = make_ratio("1", starts=30, state=make_state(env_steps=60, updates=5))
    assert ratio.kept(5, 60) is None and ratio.kept(5, 90) is None
    assert ratio.kept(15, 100) == 1.0
    assert ratio.kept(13, 100) == 0.8, "two were skipped"


def test_state_of_a_version_without_ratios_still_loads() -> None:
    whole = fields(settled=3, env_steps=60, updates=10)
    for name in ("granted", "learning_from", "updates_before", "replay_kept"):
        del whole[name]
    scheduler = Scheduler(make_settings(), msgspec.msgpack.encode(whole))
    statistics = scheduler.statistics()
    assert statistics.updates_granted == 12, "3 tickets of 4, two of which were skipped"
    assert (statistics.learning_from, statistics.replay_ratio) == (0, None)
