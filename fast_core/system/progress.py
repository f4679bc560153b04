"""Where a process that steps environments is, in words that outlive it."""

from __future__ import annotations

import enum

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
