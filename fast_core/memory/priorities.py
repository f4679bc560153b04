"""Priorities of replayed rows: draws in proportion to how wrong the learner was."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from fast_core.memory import _native

_FAN = 16  # children of a node


def beta_at(beta: float, progress: float) -> float:
    """The exponent of importance weights: from ``beta`` at the start to 1 at the end of a run."""
    return beta + (1.0 - beta) * min(max(progress, 0.0), 1.0)


def key_of(seed: np.random.SeedSequence) -> tuple[int, int]:
    """Key of a native generator, from a stream of the run."""
    first, second = seed.generate_state(2, np.uint64)
    return int(first), int(second)


class Refused(NamedTuple):
    """Updates that a tree did not take.

    Attributes:
        value: The error was NaN, infinite or negative.
        stale: The row had been overwritten.
    """

    value: int
    stale: int


class PriorityTree(_native.PriorityTree):
    """Leaf ``i`` is drawn with probability ``p_i / sum(p)``, ``p = (|error| + epsilon)^alpha``.

    Priorities are float64 and every sum is computed from its parts whenever one of them changes,
    so nothing drifts. A new row gets the greatest priority of the rows that are there then (1 where
    there is none). A leaf without a row, or of priority 0, is never drawn. A `ReplayReader` gives
    rows their leaves, takes their errors and draws; importance weights ``(N P_i)^-beta`` are
    divided by the greatest of the batch and not of the whole memory, so that the size of an update
    never depends on one rare row.

    ``total`` is the sum. ``stream()`` is where the random stream is; ``resume(refused, stream)``
    goes on with such counters and from such a place.

    It belongs to the replay node and is used by one thread. Its leaves may lie in shared memory
    (`KeptPriorities`), where what a dead one held is found again.

    Source: Schaul et al. 2016, "Prioritized Experience Replay", arXiv:1511.05952, section 3.3,
    with independent draws instead of one from each of N ranges.
    """

    __slots__ = ()

    @staticmethod
    def nbytes(leaves: int) -> int:
        """Private memory that a tree takes; `state` copies 12 bytes of each leaf."""
        levels = [leaves]
        while levels[-1] > 1:
            levels.append(-(-levels[-1] // _FAN))
        sizes = [8 * _FAN * -(-count // _FAN) for count in levels]
        return 4 * leaves + sizes[0] + 2 * sum(sizes[1:])  # sums and greatest ones

    def __new__(
        cls, leaves: int, alpha: float, epsilon: float, seed: np.random.SeedSequence
    ) -> PriorityTree:
        """A tree of ``leaves`` empty leaves.

        Raises:
            SegmentError: A number makes no sense, or there is no memory for so many.
        """
        tree = _native.PriorityTree.__new__(cls, leaves, alpha, epsilon, *key_of(seed))
        return cast("PriorityTree", tree)

    def refused(self) -> Refused:
        """Updates that were refused so far."""
        return Refused(*self._refused())

    def state(self) -> dict[str, object]:
        """Everything that changes: leaves, what they belong to, counters, random stream."""
        priorities, owners = np.empty(self.leaves), np.empty(self.leaves, np.uint32)
        self.read(priorities, owners)
        return {
            "priorities": priorities,
            "owners": owners,
            "refused": self._refused(),
            "stream": self.stream(),
        }

    def load(self, state: dict[str, object]) -> None:
        """Continue exactly from `state` of a tree of as many leaves; sums are computed anew.

        Raises:
            SegmentError: It is of another size, or damaged.
        """
        refused, stream = (cast("list[int]", state[name]) for name in ("refused", "stream"))
        self.restore(
            np.ascontiguousarray(state["priorities"], np.float64),
            np.ascontiguousarray(state["owners"], np.uint32),
            (refused[0], refused[1]),
            (stream[0], stream[1], stream[2]),
        )
