"""What a sequence says of the steps that a model is unrolled; values from later ones are open."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fast_core.algorithm import SequenceBatch
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64, Bool
from fast_core.algos.replay.sequence_targets import sum_steps


class Targets(NamedTuple):
    """Of ``N`` sequences for ``K`` steps; column ``k`` is what holds after ``k`` of them.

    The value is ``reward_sum + factor * v``, with ``v`` that of what is observed at ``later``.

    Attributes:
        reward_sum: ``[N, K + 1]``, discounted, of up to ``n_step`` steps; 0 where nothing follows.
        factor: ``[N, K + 1]``, 0 where the task ends before.
        later: ``[N, K + 1]``, which observation of the sequence that is.
        played: ``[N, K + 1]`` bool, whether there is a step, and so a search that chose it.
        known: ``[N, K + 1]`` bool, whether there is a value (and a reward of step ``k``): where
            there is a step, and behind a terminated one, where all are 0.
    """

    reward_sum: F32
    factor: F32
    later: I64
    played: Bool
    known: Bool


def find_targets(batch: SequenceBatch, unroll: int, n_step: int, discount: float) -> Targets:
    """The targets of sequences that begin with the row that was drawn.

    Args:
        batch: At least ``unroll + n_step`` rows, fewer where the episode ends.
        unroll: ``K``.
        n_step: Steps whose rewards are summed before a value.
        discount: Of a step; negative where two players take turns, for what one gains the other
            loses.
    """
    steps = np.arange(unroll + 1)
    reward_sum, factor, later = sum_steps(batch, steps, n_step, discount)
    played: Bool = steps < batch.mask.sum(axis=1)[:, None]
    over: Bool = np.asarray(batch.terminated.any(axis=1))[:, None]
    return Targets(reward_sum, factor, later, played, known=played | over)
