"""Frames keep to their interval and to their share of the time, counted on a clock of its own."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from fast_core.monitor.screens.pace import Pace

MS, S = 1_000_000, 1_000_000_000


def played(
    pace: Pace, costs_ns: dict[int, int], *, until_s: int = 60, step_ns: int = 1_000_000
) -> tuple[Counter[int], list[tuple[int, int]]]:
    """Take every frame that is due.

    Returns:
        Frames of each tile, and when each was taken, of which.
    """
    now_ns = 7 * S
    end_ns, taken, times = now_ns + until_s * S, Counter[int](), []
    while now_ns < end_ns:
        for tile in pace.due(costs_ns, now_ns):
            if pace.due((tile,), now_ns):  # as the others have left it
                times.append((now_ns, tile))
                pace.took(tile, now_ns, costs_ns[tile])
                now_ns += costs_ns[tile]
                taken[tile] += 1
        now_ns += step_ns
    return taken, times


def test_tiles_are_due_at_their_intervals() -> None:
    pace = Pace(0.5, range(3))
    pace.want(0, 200 * MS)
    pace.want(1, 500 * MS)
    taken, times = played(pace, {0: 1_000, 1: 1_000, 2: 1_000}, until_s=20)
    assert taken.keys() == {0, 1}
    assert taken[0] == pytest.approx(100, abs=1) and taken[1] == pytest.approx(40, abs=1)
    mine = [at for at, tile in times if tile == 0]
    assert min(b - a for a, b in pairwise(mine)) > 150 * MS
    assert pace.fps(0) == 5 and pace.fps(2) == 0


@pytest.mark.parametrize("share", [0.01, 0.03, 0.2, 1.0])
@pytest.mark.parametrize("costs_ms", [(2, 2, 2, 2), (90, 90, 90, 90), (1, 5, 50, 300)])
def test_share_is_kept_over_any_time_and_divided_fairly(
    share: float, costs_ms: tuple[int, ...]
) -> None:
    pace = Pace(share, range(4))
    costs = {tile: cost * MS for tile, cost in enumerate(costs_ms)}
    for tile in costs:
        pace.want(tile, 200 * MS)
    taken, times = played(pace, costs, until_s=200, step_ns=5 * MS)
    once = {tile: next(at for at, each in times if each == tile) for tile in costs}
    for begin in range(0, len(times), 1 + len(times) // 20):
        spent = 0
        for at, tile in times[begin:]:
            if at > once[tile]:  # the first frame of each is free
                spent += costs[tile]
                elapsed = at + costs[tile] - times[begin][0]
                assert spent <= share * elapsed + 2 * max(costs.values())
    if sum(costs.values()) * 5 > share * S:
        assert max(taken.values()) <= 1.3 * min(taken.values()) + 2
        assert pace.fps(0) < 5
        assert taken[0] / 200 == pytest.approx(pace.fps(0), rel=0.3, abs=0.02)
    else:
        assert all(999 <= each <= 1001 for each in taken.values())


def test_nothing_is_taken_of_a_node_that_has_used_its_share() -> None:
    pace = Pace(0.1, range(2))
    pace.want(0, MS)
    pace.want(1, MS)
    pace.took(0, 0, 30 * S)
    assert pace.due([1], 30 * S) == [1], "a first frame counts for nothing"
    pace.took(0, 30 * S, S)
    assert pace.due([0, 1], 39 * S) == []
    assert pace.due([1], 40 * S) == [1]


def test_frame_that_was_given_up_for_good_costs_no_other() -> None:
    pace = Pace(0.1, range(2))
    pace.want(0, MS)
    pace.want(1, MS)
    pace.took(0, 0, MS)
    pace.took(0, S, 3 * S, again=False)
    assert pace.due([1], 4 * S) == [1]
    assert pace.fps(1) == 1000


def test_the_one_that_waits_the_longest_is_first() -> None:
    pace = Pace(1.0, range(3))
    for tile in range(3):
        pace.want(tile, 10)
    pace.took(1, 0, 1)
    pace.took(0, 30, 1)
    assert pace.due([0, 1, 2], 100) == [2, 1, 0]


def test_frames_that_were_missed_are_made_up_for_thrice_as_fast_and_ten_at_most() -> None:
    pace, interval_ns = Pace(1.0, [0]), 300 * MS
    pace.want(0, interval_ns)
    pace.took(0, S, 1)
    at_ns = S + interval_ns
    for _ in range(3):  # in time
        assert pace.due([0], at_ns) and not pace.due([0], at_ns - 1)
        pace.took(0, at_ns, 1)
        at_ns += interval_ns
    at_ns += 60 * S  # it stands still
    taken = []
    for now_ns in range(at_ns, at_ns + 6 * S, MS):
        if pace.due([0], now_ns):
            pace.took(0, now_ns, 1)
            taken.append(now_ns)
    gaps = [b - a for a, b in pairwise(taken)]
    assert min(gaps) >= interval_ns // 3
    assert len(taken) == pytest.approx(10 + 6 * S / interval_ns, abs=1)
    assert gaps[-1] == pytest.approx(interval_ns, abs=MS)


def test_what_nobody_wanted_is_not_made_up_for() -> None:
    pace = Pace(1.0, [0])
    pace.want(0, 100)
    pace.took(0, 1_000, 1)
    pace.want(0, 0)
    pace.want(0, 100)
    pace.took(0, 9_000, 1)
    assert not pace.due([0], 9_099)
    assert pace.due([0], 9_100)


def test_tiles_that_nobody_wants_are_waited_for_by_nobody() -> None:
    pace = Pace(1.0, range(2))
    assert pace.next_ns(range(2)) is None
    pace.want(0, 100)
    pace.took(0, 1_000, 0)
    pace.took(0, 1_100, 10)
    assert pace.next_ns(range(2)) == 1_200, "not at once, for the other one's sake"
    assert pace.next_ns((1,)) is None
