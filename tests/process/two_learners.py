"""Run as a program: ``fastloop`` whose runs have two learners, which no key of a file asks for yet.

Each has half of the shards; the second, ``b``, has a seed of its own.
"""

import sys

from fast_core.config import RunConfig
from fast_core.run import parts
from fast_core.run.plan import Learner
from fast_core.tools.cli import main

OTHER_SEED = 5


def two(config: RunConfig) -> tuple[parts.Learn, ...]:
    """The parts that learn."""
    half, shards = config.rollout.shards // 2, config.rollout.shards
    first = Learner("", config.seed, range(half), config.algorithm)
    second = Learner("b", OTHER_SEED, range(half, shards), config.algorithm)
    return parts.Learn("", own=first), parts.Learn("b", own=second)


if __name__ == "__main__":
    parts.learns_of = two
    sys.exit(main())
