"""Priorities of replayed rows: draws in proportion to how wrong the learner was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fast_core.errors import SegmentError
from fast_core.memory import _native

Leaves = NDArray[np.int64]
_FAN = 16  # children of a node


def beta_at(beta: float, progress: float) -> float:
    """The exponent of importance weights: from ``beta`` at the start to 1 at the end of a run."""
    return beta + (1.0 - beta) * min(max(progress, 0.0), 1.0)


def key_of(seed: np.random.SeedSequence) -> tuple[int, int]:
    """Key of a native generator, from a stream of the run."""
    first, second = seed.generate_state(2, np.uint64)
    return int(first), int(second)


@dataclass(frozen=True)
class PriorityStatistics:
    """Figures of a tree.

    Attributes:
        leaves: Rows it has room for.
        live: Rows that have a priority.
        total: Sum of all priorities.
        greatest: The greatest one, which new rows get.
        refused_value: Updates refused because the error was NaN, infinite or negative.
        refused_stale: Updates refused because the row had been overwritten.
    """

    leaves: int
    live: int
    total: float
    greatest: float
    refused_value: int
    refused_stale: int


class PriorityTree(_native.PriorityTree):
    """Leaf ``i`` is drawn with probability ``p_i / sum(p)``, ``p = (|error| + epsilon)^alpha``.

    Priorities are float64 and every sum is computed from its parts whenever one of them changes,
    so nothing drifts. A row that is inserted gets the greatest priority of the rows that are there
    then (1 where there is none). A leaf without a row, or of priority 0, is never drawn.

    It is private to the replay node and used by one thread. What a dead one held is built anew
    from the logs, or `load` from a checkpoint.

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

    def insert(self, leaf: ArrayLike, serial: ArrayLike) -> None:
        """Gives leaves ``[N]`` to new rows, whose serial numbers later updates must bear."""
        super().insert(_integers(leaf), _integers(serial))

    def update(self, leaf: ArrayLike, serial: ArrayLike, error: ArrayLike) -> int:
        """Sets the priorities of rows from absolute errors ``[N]``; returns how many it could.

        An error that is NaN, infinite or negative, and one of a row that has left its leaf, is
        refused and counted; the old value stays.
        """
        errors = np.ascontiguousarray(error, np.float64)
        return super().update(_integers(leaf), _integers(serial), errors)

    def evict(self, leaf: ArrayLike) -> None:
        """Empties leaves ``[N]``: their probability is 0 and their rows are forgotten."""
        super().evict(_integers(leaf))

    def sample(self, count: int) -> tuple[Leaves, NDArray[np.float64]]:
        """``count`` leaves, drawn independently, and the probability of each.

        Raises:
            SegmentError: No leaf has a priority above 0.
        """
        leaf, probability = np.empty(count, np.int64), np.empty(count)
        if not super().draw(leaf, probability):
            raise SegmentError("nothing to draw: no leaf of the priority tree is above 0")
        return leaf, probability

    def priorities(self) -> NDArray[np.float64]:
        """A copy of all leaves, 0 where there is no row."""
        return self._leaves()[0]

    def statistics(self) -> PriorityStatistics:
        """Figures as of now."""
        return PriorityStatistics(
            self.leaves, len(self), self.total, self.greatest, *self._refused()
        )

    def state(self) -> dict[str, object]:
        """Everything that changes: leaves, what they belong to, counters, random stream."""
        priorities, owners = self._leaves()
        return {
            "priorities": priorities,
            "owners": owners,
            "refused": self._refused(),
            "stream": self._stream(),
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

    def _leaves(self) -> tuple[NDArray[np.float64], NDArray[np.uint32]]:
        priorities, owners = np.empty(self.leaves), np.empty(self.leaves, np.uint32)
        self.read(priorities, owners)
        return priorities, owners


def importance_weights(probability: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """``(N P_i)^-beta``, divided by the greatest of the batch, so at most 1.

    Source: as `PriorityTree`, algorithm 1, line 10. Dividing by the greatest weight of the batch
    and not of the whole memory keeps the size of an update from depending on one rare row.
    """
    weights: NDArray[np.float64] = (probability.min() / probability) ** beta
    return weights


def _integers(values: ArrayLike) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, np.int64)
