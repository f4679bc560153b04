"""What a handful of seeds says: middle, spread, and an interval for the middle. Pure.

Source: Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice", arXiv:2108.13264, sections 4.1 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
CONFIDENCE = 0.95
_TRIMMED = 0.25  # of the values at each end
_SEED = 0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """Of one number of each run; all NaN without any.

    Attributes:
        n: How many there are.
        mean: Their mean.
        std: Their standard deviation with n - 1; NaN for one.
        low: The lowest.
        high: The highest.
        iqm: Their interquartile mean.
        interval: Where the interquartile mean of other seeds would lie, with `CONFIDENCE`.
    """

    n: int
    mean: float
    std: float
    low: float
    high: float
    iqm: float
    interval: tuple[float, float]


def statistics(strata: Sequence[Sequence[float]]) -> Statistics:
    """Sum up finite values, one of each run, by stratum; see `bootstrap_interval`."""
    nan = math.nan
    array = np.concatenate([np.zeros(0), *(np.asarray(one, np.float64) for one in strata)])
    if not array.size:
        return Statistics(0, nan, nan, nan, nan, nan, (nan, nan))
    return Statistics(
        n=array.size,
        mean=float(array.mean()),
        std=float(array.std(ddof=1)) if array.size > 1 else nan,
        low=float(array.min()),
        high=float(array.max()),
        iqm=interquartile_mean(array),
        interval=bootstrap_interval(strata),
    )


def interquartile_mean(values: Sequence[float] | Floats) -> float:
    """Mean of what is left when a quarter of the values, rounded down, is dropped at each end."""
    return float(_iqm(np.asarray(values, np.float64)[None])[0])


def bootstrap_interval(strata: Sequence[Sequence[float] | Floats]) -> tuple[float, float]:
    """Percentile interval of the interquartile mean over all strata, by stratified bootstrap.

    Runs are drawn again, with replacement, within each stratum (an environment, say), so that all
    keep their weight. The same values give the same interval.

    Args:
        strata: The values of each; at least one in all. A single value tells nothing of the
            others: NaN.
    """
    arrays = [np.asarray(stratum, np.float64) for stratum in strata if len(stratum)]
    if sum(array.size for array in arrays) < 2:
        return math.nan, math.nan
    generator = np.random.default_rng(_SEED)
    drawn = [
        array[generator.integers(array.size, size=(RESAMPLES, array.size))] for array in arrays
    ]
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(_iqm(np.concatenate(drawn, axis=1)), [tail, 100 - tail])
    return float(low), float(high)


def _iqm(rows: Floats) -> Floats:
    """Of each row; a quarter of the values as numbers, as in scipy.stats.trim_mean."""
    cut = int(_TRIMMED * rows.shape[1])
    middle = np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut]
    return np.asarray(middle.mean(axis=1), np.float64)


def median_reached(steps: Sequence[float]) -> float:
    """Median of steps to a score, of which infinity never came to it."""
    return median(steps) if steps else math.nan
