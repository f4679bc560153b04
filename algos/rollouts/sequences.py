"""How the rows of a round hang together in time, for policies with memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64, Bool
from fast_core.algos.rollouts.merged import MergedRollout


@dataclass(frozen=True)
class Sequences:
    """The ``N`` environments of a round, each a sequence of ``T`` steps and the row after them.

    Attributes:
        state: ``[N, S]``, what the policy remembered before step 0.
        keep: ``[T + 1, N]`` float32, 0 where an episode ended at the step before: there the next
            one begins without memory.
        final_step: ``[K]``, steps whose final observation is bootstrapped from. What the policy
            remembers after such a step is not lost yet: in the same episode the final
            observation comes next.
        final_column: ``[K]``, their environments.
    """

    state: F32
    keep: F32
    final_step: I64
    final_column: I64

    @classmethod
    def of(cls, merged: MergedRollout) -> Self:
        """Read them off a round."""
        assert merged.state is not None, "a policy with memory stores what it remembers"
        ended = merged.terminated | merged.truncated
        keep = np.ones((len(ended) + 1, ended.shape[1]), np.float32)
        keep[1:][ended] = 0.0
        return cls(merged.state, keep, merged.final_step, merged.final_column)

    @property
    def steps(self) -> int:
        """``T``."""
        return len(self.keep) - 1

    def rows(self, columns: I64) -> I64:
        """Rows of the steps of some environments, time-major, in a table that is so as a whole."""
        first = np.arange(self.steps)[:, None] * len(self.state)
        rows: I64 = (first + columns).reshape(-1)
        return rows


class Part(NamedTuple):
    """What a minibatch of ``B`` sequences begins with: ``state [B, S]``, and ``keep [T, B]``."""

    state: F32
    keep: F32


class Minibatches:
    """Cuts a round into minibatches of whole sequences.

    Args:
        size: Rows of a minibatch, a multiple of ``T``; None: all.

    Attributes:
        sequences: Those of the round.
        known: ``[T * N]``, false for rows that stay in their sequence but out of the loss; None
            where all are learned from.
    """

    def __init__(self, size: int | None) -> None:
        nothing = np.empty(0, np.int64)
        zeros: F32 = np.zeros((0, 0), np.float32)
        self._size = size
        self._order = nothing
        self.sequences = Sequences(zeros, zeros, nothing, nothing)
        self.known: Bool | None = None
        self._shuffled_known: Bool | None = None

    def shuffle(self, order: I64) -> I64:
        """Take an order of the sequences; the order of rows in which each minibatch is a slice."""
        self._order = order
        count = len(order) if self._size is None else self._size // self.sequences.steps
        parts = [order[start : start + count] for start in range(0, len(order), count)]
        rows = np.concatenate([self.sequences.rows(part) for part in parts])
        self._shuffled_known = None if self.known is None else self.known[rows]
        return rows

    def learned(self, start: int, stop: int) -> I64 | None:
        """Which of the shuffled rows are learned from, counted from ``start``; None for all."""
        known = self._shuffled_known
        return None if known is None else np.flatnonzero(known[start:stop])

    def part(self, start: int, stop: int) -> Part:
        """What belongs to the shuffled rows ``start`` to ``stop``."""
        steps = self.sequences.steps
        columns = self._order[start // steps : stop // steps]
        keep = np.ascontiguousarray(self.sequences.keep[:-1, columns])
        return Part(self.sequences.state[columns], keep)
