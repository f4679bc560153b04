from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.monitor.rates import Rate, nearest_stop, per_second, time_left_s
from fast_core.monitor.view import StopCondition

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


def test_steady_growth_gives_its_slope() -> None:
    rate = Rate(window_s=10.0)
    for step in range(100):
        rate.add(step * 0.5, step * 50.0)
    assert rate.per_second == pytest.approx(100.0)


def test_rate_forgets_what_is_older_than_its_window() -> None:
    rate = Rate(window_s=10.0)
    for second in range(31):
        rate.add(second, 1000.0 * min(second, 10) + 10.0 * max(second - 10, 0))
    assert rate.per_second == pytest.approx(10.0)


def test_rate_falls_to_zero_when_the_counter_stands_still() -> None:
    rate = Rate(window_s=5.0)
    for second in range(12):
        rate.add(second, min(second, 4) * 100.0)
    assert rate.per_second == 0.0


def test_no_rate_before_two_moments() -> None:
    rate = Rate()
    assert rate.per_second == 0.0
    rate.add(1.0, 5.0)
    assert rate.per_second == 0.0
    rate.add(1.0, 500.0)
    assert rate.per_second == 0.0


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_clock_step_never_gives_a_negative_or_infinite_rate(step_s: float) -> None:
    rate = Rate(window_s=10.0)
    for second in range(5):
        rate.add(100.0 + second, second * 10.0)
    for second in range(5):
        rate.add(100.0 + step_s + second, 50.0 + second * 10.0)
        assert 0.0 <= rate.per_second <= 50.0


def test_counter_that_falls_starts_a_new_measurement() -> None:
    rate = Rate()
    for second in range(5):
        rate.add(second, 1000.0 * second)
    for second in range(5, 10):
        rate.add(second, 500.0 + 10.0 * second)
    assert rate.per_second == pytest.approx(10.0)


def test_frequent_samples_keep_memory_bounded_and_the_rate_right() -> None:
    rate = Rate(window_s=10.0)
    for millisecond in range(30_000):
        rate.add(millisecond / 1000, millisecond * 2.0)
    assert rate.per_second == pytest.approx(2000.0, rel=0.01)
    assert len(rate._samples) <= 60


@given(st.lists(st.tuples(ANY_FLOAT, ANY_FLOAT), max_size=60))
def test_rate_is_finite_and_not_negative_whatever_comes(samples: list[tuple[float, float]]) -> None:
    rate = Rate()
    for now_s, count in samples:
        rate.add(now_s, count)
        assert 0.0 <= rate.per_second < math.inf


@pytest.mark.parametrize("window_s", [0.0, -1.0, math.nan, math.inf])
def test_window_must_be_positive(window_s: float) -> None:
    with pytest.raises(ValueError, match="window_s"):
        Rate(window_s)


def test_elapsed_zero_gives_no_rate() -> None:
    assert per_second(100, 0.0) == 0.0
    assert per_second(100, -1.0) == 0.0
    assert per_second(100, 4.0) == 25.0


def test_time_left_is_what_remains_over_the_rate() -> None:
    assert time_left_s(StopCondition("env_steps", 400, 1000), 100.0) == pytest.approx(6.0)
    assert time_left_s(StopCondition("env_steps", 1200, 1000), 100.0) == 0.0
    assert time_left_s(StopCondition("env_steps", 400, 1000), 0.0) is None
    assert time_left_s(StopCondition("updates", None, 1000), 5.0) is None
    assert time_left_s(StopCondition("time_s", 5, 1e9), 1.0) is None, "it is for ever"
    assert time_left_s(StopCondition("score", 400.0, 475.0), 5.0) is None


def test_nearest_stop_is_the_one_with_the_least_time_left() -> None:
    steps = StopCondition("env_steps", 100, 1000)
    clock = StopCondition("time_s", 10.0, 15.0)
    score = StopCondition("score", 474.0, 475.0)
    assert nearest_stop((score, steps, clock), (0.0, 100.0, 1.0)) == (clock, 5.0)
    assert nearest_stop((score, steps, clock), (0.0, 900.0, 1.0)) == (steps, 1.0)


def test_most_complete_counter_stands_in_while_no_time_is_known() -> None:
    steps = StopCondition("env_steps", 100, 1000)
    updates = StopCondition("updates", 500, 1000)
    assert nearest_stop((steps, updates), (0.0, 0.0)) == (updates, None)
    score = StopCondition("score", 474.0, 475.0)
    assert nearest_stop((score, steps), (0.0, 0.0)) == (steps, None)
    assert nearest_stop((score,), (0.0,)) == (score, None)
    assert nearest_stop((), ()) is None


@pytest.mark.parametrize(
    ("current", "limit", "fraction"),
    [
        (None, 10, 0.0),
        (5, 10, 0.5),
        (15, 10, 1.0),
        (-5, 10, 0.0),
        (-50, -20, 0.0),
        (math.nan, 1, 0),
    ],
)
def test_fraction_done_stays_between_zero_and_one(
    current: float | None, limit: float, fraction: float
) -> None:
    assert StopCondition("score", current, limit).fraction == fraction
