"""Which rows of drawn sequences are learned from, their n-step targets, and what is reported."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fast_core.algorithm import Array, SequenceBatch, Window
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64


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

    Targets are those of a `ReplayBatch` of ``n = window.after + 1`` steps: they end with the
    episode, and count nothing after a terminated one.
    """
    first, n_step = window.before, window.after + 1
    sequence, now = np.nonzero(batch.mask[:, first : first + window.steps])
    now = now + first
    end = batch.mask.shape[1] - batch.mask[:, ::-1].argmax(axis=1)
    steps = np.minimum(n_step, end[sequence] - now)
    power = np.cumprod([1.0, *[gamma] * n_step])
    reward = np.zeros(len(now))
    for k in range(n_step):
        there = np.flatnonzero(k < steps)
        reward[there] += power[k] * batch.reward[sequence[there], now[there] + k]
    then = now + steps
    over = batch.terminated[sequence, then - 1]
    return LearnedRows(
        sequence,
        now,
        then,
        reward.astype(np.float32),
        np.where(over, 0.0, power[steps]).astype(np.float32),
        np.searchsorted(sequence, np.arange(len(batch.mask))),
    )


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
