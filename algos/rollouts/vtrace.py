"""Value targets and advantages from ordered rollouts of another policy."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatT = TypeVar("FloatT", np.float32, np.float64)


class VTrace(NamedTuple, Generic[FloatT]):
    """What `vtrace` finds, each ``[T, N]``."""

    target: NDArray[FloatT]
    advantage: NDArray[FloatT]
    weight: NDArray[FloatT]


def vtrace(
    log_ratio: NDArray[FloatT],
    reward: NDArray[FloatT],
    value: NDArray[FloatT],
    next_value: NDArray[FloatT],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    *,
    gamma: float,
    gae_lambda: float,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> VTrace[FloatT]:
    """Off-policy corrected value targets and advantages.

    Shapes: all ``[T, N]``. ``log_ratio`` is the log-probability of the action under the policy
    that learns, less that under the one that acted. The others are those of
    `generalized_advantages`: ``next_value`` is the value of the true successor, not used where
    the task terminated, and the recursion stops at every end.

    The advantages are without the ``weight`` min(rho_clip, ratio) of their own step, which the
    policy's gradient is to be multiplied with. Where every ratio is 1, they are those of
    generalised advantage estimation, and the targets are these plus ``value``; with gae_lambda 1
    both are the paper's.

    Source: Espeholt et al. 2018, arXiv:1802.01561, equation 1 and remark 2.
    """
    dtype = reward.dtype.type
    with np.errstate(over="ignore"):  # an infinite ratio is clipped like a large one
        ratio = np.exp(log_ratio)
    weight = np.minimum(ratio, dtype(rho_clip))
    alive = ~terminated
    going_on = np.where(alive & ~truncated, dtype(gamma * gae_lambda), dtype(0))
    error = reward + np.where(alive, dtype(gamma) * next_value, dtype(0)) - value
    decay = going_on * np.minimum(ratio, dtype(c_clip))
    gain = weight * error
    surplus = np.zeros((len(value) + 1, *value.shape[1:]), value.dtype)  # target less value
    for t in range(len(value) - 1, -1, -1):
        np.multiply(decay[t], surplus[t + 1], out=surplus[t])
        np.add(gain[t], surplus[t], out=surplus[t])
    return VTrace(value + surplus[:-1], error + going_on * surplus[1:], weight)


def drifted(
    log_ratio: NDArray[FloatT], push: NDArray[FloatT], epsilon: float | None
) -> NDArray[np.bool_]:
    """Which rows would push the policy on that has left the one that acted by ``epsilon`` already.

    It has where the ratio is beyond ``1 + epsilon`` or ``1 - epsilon``, on the side to which
    ``push``, the advantage as the loss sees it, goes: the rows that PPO's clip around the policy
    that acted would still.
    """
    if epsilon is None:
        return np.zeros(log_ratio.shape, np.bool_)
    ratio = np.exp(log_ratio)
    more: NDArray[np.bool_] = (ratio > 1 + epsilon) & (push > 0)
    return more | ((ratio < 1 - epsilon) & (push < 0))


def effective_sample_size(log_ratio: NDArray[np.floating], rows: int | None = None) -> float:
    """How many rows as good as on-policy these are worth, as a share of ``rows``, or of them.

    ``(sum w)^2 / (n sum w^2)`` of the importance weights ``w``, none of them clipped; 1 where
    there are no rows at all.

    Source: Kong 1992, a note on importance sampling using standardized weights.
    """
    count = log_ratio.size if rows is None else rows
    if not log_ratio.size:
        return 0.0 if count else 1.0
    logs = log_ratio.astype(np.float64).reshape(-1)
    weights = np.exp(logs - logs.max())  # the same factor above and below
    return float(weights.sum() ** 2 / (count * np.square(weights).sum()))
