"""Rates and time left, from monotonic samples; pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

from fast_core.monitor.view import StopCondition

_SAMPLES_PER_WINDOW = 50

FOR_EVER_S = 1000 * 86_400.0


class Rate:
    """Growth of a counter per second over the last seconds.

    Samples may come as often as one likes: those closer together than a fiftieth of the window
    replace one another, so memory and work are bounded. A clock that stands still or steps back
    and a counter that falls (a restart) never give a negative or infinite rate.

    Args:
        window_s: How far back the rate looks, in seconds.
    """

    def __init__(self, window_s: float = 10.0) -> None:
        if not (math.isfinite(window_s) and window_s > 0):
            raise ValueError(f"window_s must be a positive number of seconds; got {window_s!r}")
        self._window_s = window_s
        self._samples: deque[tuple[float, float]] = deque()

    def add(self, now_s: float, count: float) -> None:
        """Note the counter's value at a monotonic time."""
        samples = self._samples
        if not (math.isfinite(now_s) and math.isfinite(count)):
            return
        if samples and (now_s < samples[-1][0] or count < samples[-1][1]):
            samples.clear()
        spacing_s = self._window_s / _SAMPLES_PER_WINDOW
        if len(samples) >= 2 and now_s - samples[-2][0] < spacing_s:
            samples.pop()
        samples.append((now_s, count))
        # One sample at or before the window's start is kept, so that the whole window counts.
        while len(samples) > 2 and samples[1][0] <= now_s - self._window_s:
            samples.popleft()

    @property
    def per_second(self) -> float:
        """The rate: finite and not negative; zero until two moments are known."""
        if len(self._samples) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return per_second(last - first, last_s - first_s)


def per_second(count: float, elapsed_s: float) -> float:
    """``count / elapsed_s``, or zero where no time has passed."""
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    return rate if math.isfinite(rate) and rate > 0 else 0.0


def time_left_s(stop: StopCondition, rate: float) -> float | None:
    """Seconds until a counter reaches its limit at this rate; None where nobody can know.

    More than `FOR_EVER_S` is as good as no limit.
    """
    if stop.current is None or stop.name == "score":
        return None
    remaining = max(stop.limit - stop.current, 0.0)
    if remaining == 0:
        return 0.0
    left = remaining / rate if rate > 0 else math.inf
    return left if left < FOR_EVER_S else None


def nearest_stop(
    stops: Sequence[StopCondition], rates: Sequence[float]
) -> tuple[StopCondition, float | None] | None:
    """The condition that will end the run, as far as rates can tell, and the seconds left.

    Args:
        stops: The run's stop conditions.
        rates: Growth of each one's counter per second; time grows by 1, a score is ignored.

    Returns:
        The one with the least time left; while no time is known, the most complete counter; a
        score only where it stands alone; None without conditions.
    """
    if not stops:
        return None

    def order(candidate: tuple[StopCondition, float | None]) -> tuple[bool, float, float]:
        stop, left = candidate
        return (stop.name == "score", math.inf if left is None else left, -stop.fraction)

    candidates = [(stop, time_left_s(stop, rate)) for stop, rate in zip(stops, rates, strict=True)]
    return min(candidates, key=order)
