"""Statistics of a few seeds, against other ways to the same numbers."""

from __future__ import annotations

import itertools
import math
import statistics as standard

import numpy as np
import pytest

from fast_core.tools.compare.statistics import (
    bootstrap_interval,
    interquartile_mean,
    median_reached,
    statistics,
)

VALUES = [3.0, 10.0, 4.0, 8.0, 1.0, 7.0, 100.0, -50.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([1.0, 3.0], 2.0),
        ([1.0, 3.0, 8.0], 4.0),  # a quarter of three is none
        ([0.0, 1.0, 2.0, 90.0], 1.5),
        ([0.0, 1.0, 2.0, 3.0, 90.0], 2.0),
        (VALUES, (3.0 + 4.0 + 7.0 + 8.0) / 4),
    ],
)
def test_interquartile_mean_drops_a_quarter_at_each_end(
    values: list[float], expected: float
) -> None:
    assert interquartile_mean(values) == pytest.approx(expected)


def test_statistics_are_those_of_the_standard_library() -> None:
    found = statistics([VALUES])
    assert (found.n, found.low, found.high) == (8, -50.0, 100.0)
    assert found.mean == pytest.approx(standard.mean(VALUES))
    assert found.std == pytest.approx(standard.stdev(VALUES))


def exact_interval(values: list[float]) -> tuple[float, float]:
    """By every possible resample, with the mean of the middle taken in plain Python."""
    cut = len(values) // 4
    means = []
    for drawn in itertools.product(values, repeat=len(values)):
        middle = sorted(drawn)[cut : len(values) - cut]
        means.append(sum(middle) / len(middle))
    low, high = np.percentile(means, [2.5, 97.5], method="inverted_cdf")
    return float(low), float(high)


@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0], [0.0, 1.0, 5.0, 6.0], [1, 2, 3, 5, 8, 13]])
def test_interval_is_that_of_all_resamples(values: list[float]) -> None:
    spread = max(values) - min(values)
    low, high = exact_interval(values)
    found = bootstrap_interval([values])
    assert found == pytest.approx((low, high), abs=0.05 * spread)


def test_strata_are_drawn_from_each_by_itself() -> None:
    """Without strata, resamples could hold three of the first kind, or none."""
    strata = [[0.0, 0.0], [100.0, 100.0]]
    assert bootstrap_interval(strata) == (50.0, 50.0)
    low, high = bootstrap_interval([[0.0, 0.0, 100.0, 100.0]])
    assert (low, high) == (0.0, 100.0)


def test_interval_repeats() -> None:
    assert bootstrap_interval([VALUES]) == bootstrap_interval([VALUES])


def test_one_seed_has_no_spread_and_none_has_nothing() -> None:
    one, none = statistics([[5.0]]), statistics([])
    assert (one.n, one.mean, one.iqm) == (1, 5.0, 5.0)
    assert math.isnan(one.std) and math.isnan(one.interval[0])
    assert none.n == 0 and math.isnan(none.mean) and math.isnan(none.iqm)


def test_median_of_steps_counts_those_that_never_came_as_infinite() -> None:
    assert median_reached([3.0, 1.0, math.inf]) == 3.0
    assert median_reached([1.0, math.inf]) == math.inf
    assert median_reached([1.0, 2.0]) == 1.5
    assert math.isnan(median_reached([]))
