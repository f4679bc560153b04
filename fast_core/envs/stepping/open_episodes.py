"""Which episode each environment of a batch is in, and since when."""

from __future__ import annotations

from collections.abc import Sequence

from fast_core.envs.drawing.drawable import Present
from fast_core.system.progress import ProgressWord
from fast_core.system.seeding import EpisodeSeeds

_STEP = int(ProgressWord.STEP)  # arithmetic on enumeration members takes five times as long
_BEGUN = int(ProgressWord.BEGUN)


class OpenEpisodes:
    """The open episode of each environment, by its place in the batch.

    Attributes:
        count: Steps the batch has begun.
        oldest: Value of ``count`` when the oldest open episode began.
        episode: Number of each open episode, -1 before the first.
        start: Value of ``count`` when it began.
        words: `ProgressWord` words that are kept current.
    """

    def __init__(self, seeds: Sequence[EpisodeSeeds], words: memoryview) -> None:
        self.count = 0
        self.oldest = 0
        self.episode = [-1] * len(seeds)
        self.start = [0] * len(seeds)
        self.words = words
        self._seeds = seeds
        self._start_word = _BEGUN + len(seeds)

    def begin(self, place: int, episode: int, start: int) -> int:
        """Note that ``episode`` began at ``start``; returns the seed to reset with.

        `find_oldest` must follow before the next step.
        """
        self.episode[place] = episode
        self.start[place] = start
        self.words[_BEGUN + place] = episode + 1
        self.words[self._start_word + place] = start
        return self._seeds[place][episode]

    def next_step(self) -> int:
        """Begin the next step of the batch; returns its number, from 1."""
        self.count += 1
        self.words[_STEP] = self.count
        return self.count

    def find_oldest(self) -> int:
        """Bring ``oldest`` up to date and return it."""
        self.oldest = min(self.start)
        return self.oldest

    def length(self, place: int) -> int:
        """Steps of the open episode, the one being taken included."""
        return self.count - self.start[place]

    def present(self, place: int, total: float) -> Present:
        """Where the open episode is, whose rewards add up to ``total``."""
        return Present(self.episode[place], self.seed(place), self.length(place), total)

    def seed(self, place: int) -> int:
        """Seed of the open episode."""
        return self._seeds[place][self.episode[place]]
