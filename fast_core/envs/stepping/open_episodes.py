"""Which episode each environment of a batch is in, and since when."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from fast_core.envs.drawing.drawable import Present
from fast_core.system.seeding import EpisodeSeeds, Role

ALL_ENVS = -1


class ProgressWord(enum.IntEnum):
    """Layout of the 64-bit words in which a batch keeps where it is.

    The words may lie in shared memory, so that they can still be read after a simulator took
    its process down. ``BEGUN`` begins ``envs`` words with how many episodes each environment has
    begun, the open one being the last of them, and as many follow with the value of ``STEP`` when
    that began. What was begun stays until the batch begins another: one that is only made leaves
    it to who comes after.

    ``ENV`` is the environment that is being stepped, or `ALL_ENVS` where one call steps them all.

    Concurrency: written by the batch alone, word by word; nothing publishes them together. Read
    them for diagnosis, best after the writer is gone.
    """

    ENV = 0
    STEP = 1
    BEGUN = 2


def progress_words(envs: int) -> int:
    """Number of 64-bit words for the progress of ``envs`` environments."""
    return ProgressWord.BEGUN + 2 * envs


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


def read_progress(
    words: memoryview, *, seed: int, role: Role, shard: int, first_env: int = 0
) -> dict[str, str]:
    """Say where a batch was, from its `ProgressWord` words, after its process died.

    Step 0 is the reset. The names are those of `EnvironmentFailed.context`. Where all environments
    are stepped at once, any of them may be the one.
    """
    place, step = words[ProgressWord.ENV], words[ProgressWord.STEP]
    envs = (len(words) - ProgressWord.BEGUN) // 2
    if place == ALL_ENVS:
        return {"environment": f"{first_env} to {first_env + envs - 1}", "shard": str(shard)}
    episode = words[ProgressWord.BEGUN + place] - 1
    index = first_env + place
    at = {"environment": str(index), "shard": str(shard)}
    if episode < 0:
        return at
    return at | {
        "episode": str(episode),
        "seed": str(EpisodeSeeds(seed, role, shard, index)[episode]),
        "step": str(step - words[ProgressWord.BEGUN + envs + place]),
    }
