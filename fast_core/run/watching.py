"""What viewers want to see, in words of shared memory."""

from __future__ import annotations

WATCHING = "watching"  # family of the structures that viewers yield
STALE_NS = 3_000_000_000  # a viewer that has not written for so long is gone
_ALIVE = 0
_INSIGHT = 1
_DRAWS = 2
_TILES = 3


def watching_words(tiles: int) -> int:
    """Number of 64-bit words for so many tiles."""
    return _TILES + tiles


class Watching:
    """The words of a `Trace` in which a viewer says what it wants.

    Attributes:
        words: The first is 0 while nobody watches, else when the viewer wrote last, on the
            monotonic clock in ns. The second is 1 while somebody wants to know what the policy
            thinks, the third where the viewer draws itself what it is given the pose of. The
            others are the interval wanted between two frames of each tile in ns, 0
            where none are wanted.

    Concurrency: one viewer writes; whoever steps environments reads, and the first optimizer the
    second word. Nothing is published by the words: a frame more or less is no harm. A viewer that
    was killed is known by its silence.
    """

    __slots__ = ("words",)

    def __init__(self, words: memoryview) -> None:
        """Takes the words of the trace."""
        self.words = words

    def want(
        self,
        intervals_ns: dict[int, int],
        now_ns: int,
        *,
        insight: bool = False,
        draws: bool = False,
    ) -> None:
        """Say which tiles are watched, and the interval between two frames of each.

        ``insight``: whether what the policy thinks is wanted too, as where a tile is enlarged.
        ``draws``: whether a `Frame.pose` will do in place of a picture.
        """
        self.words[_DRAWS] = int(draws)
        self.words[_INSIGHT] = int(insight)
        for tile in range(len(self.words) - _TILES):
            self.words[_TILES + tile] = intervals_ns.get(tile, 0)
        self.words[_ALIVE] = now_ns if intervals_ns else 0

    def insight(self, now_ns: int) -> bool:
        """Whether somebody wants to know what the policy thinks; reads one word if not."""
        return bool(self.words[_INSIGHT]) and self._is_there(now_ns)

    @property
    def draws(self) -> bool:
        """Whether it draws itself what it is given the pose of."""
        return bool(self.words[_DRAWS])

    def interval_ns(self, tile: int, now_ns: int) -> int:
        """The interval wanted between two frames of a tile; 0 where nobody watches it."""
        return self.words[_TILES + tile] if self._is_there(now_ns) else 0

    def _is_there(self, now_ns: int) -> bool:
        alive_ns = self.words[_ALIVE]
        return bool(alive_ns) and now_ns - alive_ns <= STALE_NS
