"""The terms of PPO's loss and their gradients, in NumPy, for the rows of one minibatch."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fast_core.algos.nets.networks import F32

ONE = np.float32(1)


class Surrogate(NamedTuple):
    """The clipped objective.

    Attributes:
        log_prob_gradient: ``[B]``, of the loss with respect to each log-probability.
        loss: Minus the mean clipped objective.
        approx_kl: Mean of ``ratio - 1 - log(ratio)``, which is never negative.
        clip_fraction: Share of ratios outside the clip range.
    """

    log_prob_gradient: F32
    loss: float
    approx_kl: float
    clip_fraction: float


def standardise(advantage: F32) -> F32:
    """Centre ``[B]`` and scale to unit deviation; one sample has no deviation and is kept.

    Advantages that are all equal become zeros.
    """
    count = len(advantage)
    if count < 2:
        return advantage
    centred: F32 = advantage - np.add.reduce(advantage) / np.float32(count)
    deviation = math.sqrt(float(np.dot(centred, centred)) / (count - 1))
    centred *= np.float32(1.0 / (deviation + 1e-8))
    return centred


def clipped_surrogate(
    log_prob: F32, behaviour_log_prob: F32, advantage: F32, clip_epsilon: float
) -> Surrogate:
    """Return the clipped objective of ``[B]`` rows and its gradient.

    Source: Schulman et al. 2017, arXiv:1707.06347, equation 7; the divergence estimate is
    k3 of http://joschu.net/blog/kl-approx.html.
    """
    count = len(log_prob)
    log_ratio = log_prob - behaviour_log_prob
    ratio = np.exp(log_ratio)
    clipped = np.minimum(
        np.maximum(ratio, np.float32(1 - clip_epsilon)), np.float32(1 + clip_epsilon)
    )
    outside = np.count_nonzero(clipped != ratio)
    objective = ratio * advantage
    np.multiply(clipped, advantage, out=clipped)
    active = objective <= clipped  # elsewhere the clipped term is smaller, and is constant
    loss = -float(np.add.reduce(np.minimum(objective, clipped))) / count
    np.multiply(objective, np.float32(-1.0 / count), out=objective)
    np.multiply(objective, active, out=objective)
    np.subtract(ratio, ONE, out=ratio)
    np.subtract(ratio, log_ratio, out=ratio)
    return Surrogate(objective, loss, float(np.add.reduce(ratio)) / count, outside / count)


def squared_error(
    value: F32, target: F32, old_value: F32, clip_epsilon: float | None
) -> tuple[float, F32]:
    """Return the mean squared value error of ``[B]`` rows and its gradient.

    With ``clip_epsilon`` a value gains nothing by moving further than that from the value at
    the start of the round: the larger of both errors counts.
    """
    count = len(value)
    error = value - target
    if clip_epsilon is None:
        loss = float(np.dot(error, error)) / count
        error *= np.float32(2.0 / count)
        return loss, error
    limit = np.float32(clip_epsilon)
    move = value - old_value
    near = np.minimum(np.maximum(move, -limit), limit)
    squares, near_squares = np.square(error), np.square(old_value + near - target)
    loss = float(np.add.reduce(np.maximum(squares, near_squares))) / count
    error *= np.float32(2.0 / count)
    # Within the limit both errors are the same but for rounding, which must not decide.
    error *= (near == move) | (squares >= near_squares)
    return loss, error
