"""Advantages and value targets from ordered rollouts."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatT = TypeVar("FloatT", np.float32, np.float64)


def generalized_advantages(
    reward: NDArray[FloatT],
    value: NDArray[FloatT],
    next_value: NDArray[FloatT],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    *,
    gamma: float,
    gae_lambda: float,
) -> NDArray[FloatT]:
    """Generalised advantage estimates; value targets are these plus ``value``.

    Shapes: all ``[T, N]``. ``next_value`` is the value of the true successor: of the final
    observation where the episode was truncated, of the next row otherwise; it is not used
    where the task terminated. The recursion stops at every end of an episode.

    The loop runs over time with whole rows of environments: two calls a step.

    Source: Schulman et al. 2015, arXiv:1506.02438, equation 16.
    """
    dtype = reward.dtype.type
    alive = ~terminated
    advantage: NDArray[FloatT] = (
        reward + np.where(alive, dtype(gamma) * next_value, dtype(0)) - value
    )
    decay = np.where(alive & ~truncated, dtype(gamma * gae_lambda), dtype(0))
    following = np.zeros_like(value[0])
    for delta, keep in zip(advantage[::-1], decay[::-1], strict=True):
        np.multiply(keep, following, out=keep)
        np.add(delta, keep, out=delta)
        following = delta
    return advantage
