"""Which rows of drawn sequences are learned from, their n-step targets, and what is reported."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fast_core.algorithm import Array, SequenceBatch, Window
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64, Bool


class Sums(NamedTuple):
    """Of some rows of ``N`` sequences; a value is ``reward + factor * v``, with that of ``then``.

    Attributes:
        reward: ``[N, R]``, the discounted sum of up to n steps, which end with the episode.
        factor: ``[N, R]``, 0 where the task ends within them, and at rows that are not there.
        then: ``[N, R]``, which observation of the sequence follows them.
    """

    reward: F32
    factor: F32
    then: I64


def sum_steps(batch: SequenceBatch, rows: I64, n_step: int, discount: float) -> Sums:
    """What n steps give from each of ``rows [R]`` on, those of a `ReplayBatch`."""
    length = batch.mask.shape[1]
    end = length - batch.mask[:, ::-1].argmax(axis=1)[:, None]
    over: Bool = np.asarray(batch.terminated.any(axis=1))[:, None]  # with the last row there
    ahead = np.arange(length) - rows[:, None]
    within = (ahead >= 0) & (ahead < n_step)
    discounts = np.where(within, discount ** np.maximum(ahead, 0.0), 0.0).astype(np.float32)
    then: I64 = np.minimum(rows + n_step, end)
    bootstraps = (rows < end) & ~(over & (then == end))
    factor = np.where(bootstraps, discount ** np.maximum(then - rows, 0.0), 0.0)
    reward = np.where(batch.mask, batch.reward, np.float32(0))
    return Sums(reward @ discounts.T, factor.astype(np.float32), then)


class LearnedRows(NamedTuple):
    """``M`` rows, one sequence after the other, as transitions of up to n steps.

    Attributes:
        sequence: ``[M]``, of which sequence a row is.
        now: ``[M]``, where in the sequence it is.
        then: ``[M]``, where the observation after its steps is.
        reward: ``[M]``, the discounted sum of its steps' rewards.
        discount: ``[M]``, what the value of that observation is multiplied with.
        starts: ``[N]``, which row is the first of each sequence.
    """

    sequence: I64
    now: I64
    then: I64
    reward: F32
    discount: F32
    starts: I64


def learned_rows(batch: SequenceBatch, window: Window, gamma: float) -> LearnedRows:
    """The rows of ``batch`` from the drawn one on, at most ``window.steps`` of each sequence.

    Their targets have up to ``window.after + 1`` steps.
    """
    rows = window.before + np.arange(window.steps)
    sums = sum_steps(batch, rows, window.after + 1, gamma)
    there = batch.mask[:, rows]
    sequence, at = np.nonzero(there)
    reward, discount, then = sums.reward[there], sums.factor[there], sums.then[there]
    starts = np.searchsorted(sequence, np.arange(len(there)))
    return LearnedRows(sequence, rows[at], then, reward, discount, starts)


def going_on(mask: Array) -> F32:
    """What multiplies the state that enters each row, ``[L + 1, N]``; ``mask [N, L]`` as drawn.

    Zero where an episode begins behind rows that are none; those are unrolled in vain.
    """
    keep: F32 = np.ones((mask.shape[1] + 1, len(mask)), np.float32)
    first = mask.argmax(axis=1)
    late = np.flatnonzero(first)
    keep[first[late], late] = 0.0
    return keep


def sequence_errors(error: F32, starts: I64) -> F32:
    """Of each sequence one error, from those of its rows ``[M]``.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning", section 2.3: 0.9 of the greatest and 0.1 of the mean.
    """
    counts = np.diff(starts, append=len(error))
    mean = np.add.reduceat(error, starts) / counts.astype(np.float32)
    greatest = np.maximum.reduceat(error, starts)
    found: F32 = (0.9 * greatest + 0.1 * mean).astype(np.float32)
    return found
