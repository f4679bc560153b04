"""When a frame of a tile is due, so that frames take no more than their share of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

BEHIND = 10  # frames that were missed and are made up for, at most
FASTER = 3  # times, at most, that frames come while they make up for others
_NEWEST = 0.2  # weight of the newest frame in what one costs


class Rhythm:
    """When the next frame of one tile is due, of those that are wanted at an interval.

    Environments stand still while training learns from what they gave. So frames that were missed
    are made up for: they come `FASTER` until all have come, or the last `BEHIND` of them.

    Attributes:
        due: When the next one is due, in the unit of what `took` is told; 0 before the first.
    """

    __slots__ = ("_planned", "due")

    def __init__(self) -> None:
        self.due = 0.0
        self._planned: float | None = None

    def took(self, now: float, interval: float) -> None:
        """Count a frame that was taken ``now``."""
        planned = now if self._planned is None else self._planned
        self._planned = max(planned + interval, now - BEHIND * interval)
        self.due = max(self._planned, now + interval / FASTER)


class Pace:
    """The frames of the tiles of one node.

    Each tile is due at the interval that is wanted, and sooner where frames were missed
    (`Rhythm`). Where all of them together would take more than ``share`` of the time, all
    intervals are made longer by the same factor. Beside that a
    frame is followed by as much time without any as makes up for it, whatever it was expected to
    cost: over any time frames take ``share`` of it, and one frame more at most. The first frame of
    each tile counts for neither: it imports, compiles and opens what the next ones use. Nor does
    one that will never be tried again.
    """

    def __init__(self, share: float, tiles: Iterable[int]) -> None:
        """``share`` is the part of the time, above 0 and at most 1."""
        self._share = share
        self._wanted = dict.fromkeys(tiles, 0)
        self._cost: dict[int, float] = {}  # of a frame, ns
        self._rhythms = {tile: Rhythm() for tile in self._wanted}
        self._begun: set[int] = set()
        self._free_ns = 0

    def want(self, tile: int, interval_ns: int) -> None:
        """Say which interval is wanted between two frames of a tile; 0: none are wanted."""
        self._wanted[tile] = interval_ns
        if not interval_ns:
            self._rhythms[tile] = Rhythm()  # nothing of what nobody wanted was missed

    def due(self, tiles: Iterable[int], now_ns: int) -> list[int]:
        """Those of ``tiles`` of which a frame is due, the one that waits the longest first."""
        if now_ns < self._free_ns:
            return []
        rhythms = self._rhythms
        due = [tile for tile in tiles if self._wanted[tile] and now_ns >= rhythms[tile].due]
        return sorted(due, key=lambda tile: rhythms[tile].due)

    def next_ns(self, tiles: Iterable[int]) -> int | None:
        """When the next frame of one of ``tiles`` may be taken; None where none is wanted."""
        due = [self._rhythms[tile].due for tile in tiles if self._wanted[tile]]
        return max(round(min(due)), self._free_ns) if due else None

    def interval_ns(self, tile: int) -> float:
        """The interval between two frames of a tile that is wanted."""
        load = sum(
            self._cost.get(each, 0.0) / wanted for each, wanted in self._wanted.items() if wanted
        )
        return self._wanted[tile] * max(1.0, load / self._share)

    def fps(self, tile: int) -> float:
        """Frames a second that a tile is given; 0 where none are wanted."""
        return 1e9 / self.interval_ns(tile) if self._wanted[tile] else 0.0

    def took(self, tile: int, began_ns: int, cost: int, *, again: bool = True) -> None:
        """Count a frame that was begun at ``began_ns`` and cost so many ns.

        Those that follow cost something else where it is not to happen ``again``.
        """
        if tile in self._begun and again:
            before = self._cost.get(tile, cost)
            self._cost[tile] = before + _NEWEST * (cost - before)
            self._free_ns = max(self._free_ns, began_ns) + round(cost / self._share)
        self._begun.add(tile)
        if self._wanted[tile]:
            self._rhythms[tile].took(began_ns, self.interval_ns(tile))
