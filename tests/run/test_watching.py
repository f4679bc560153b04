"""Who watches says so in words, and is forgotten when it says nothing any more."""

from __future__ import annotations

from fast_core.run.watching import STALE_NS, Watching, watching_words

NOW_NS = 5_000_000_000


def words(tiles: int) -> Watching:
    return Watching(memoryview(bytearray(8 * watching_words(tiles))).cast("q"))


def test_nobody_watches_at_first() -> None:
    watching = words(2)
    assert [watching.interval_ns(tile, NOW_NS) for tile in range(2)] == [0, 0]


def test_only_what_is_wanted_is_and_only_while_it_is_said() -> None:
    watching = words(3)
    watching.want({0: 200, 2: 500}, NOW_NS)
    assert [watching.interval_ns(tile, NOW_NS) for tile in range(3)] == [200, 0, 500]
    watching.want({1: 100}, NOW_NS + 1)
    assert [watching.interval_ns(tile, NOW_NS) for tile in range(3)] == [0, 100, 0]
    watching.want({}, NOW_NS + 2)
    assert watching.words[0] == 0, "the one word that is read while nobody watches"
    assert watching.interval_ns(1, NOW_NS) == 0


def test_viewer_says_whether_it_draws_itself() -> None:
    watching = words(1)
    watching.want({0: 100}, NOW_NS, draws=True)
    assert watching.draws
    watching.want({0: 100}, NOW_NS)
    assert not watching.draws and watching.interval_ns(0, NOW_NS) == 100


def test_viewer_that_is_silent_is_gone_until_it_speaks() -> None:
    watching = words(1)
    watching.want({0: 100}, NOW_NS)
    assert watching.interval_ns(0, NOW_NS + STALE_NS) == 100
    assert watching.interval_ns(0, NOW_NS + STALE_NS + 1) == 0
    watching.want({0: 100}, NOW_NS + STALE_NS + 2)
    assert watching.interval_ns(0, NOW_NS + STALE_NS + 2) == 100
