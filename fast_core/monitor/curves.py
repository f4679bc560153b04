"""A metric over environment steps: of one run, and of several on one axis. Pure but for reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fast_core.messages.metrics import MetricsRow
from fast_core.monitor.metrics_file import decode_row
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.tail import Tail

Floats = NDArray[np.float64]
_MOST_POINTS = 300


@dataclass(frozen=True)
class Series:
    """A metric of one run.

    Attributes:
        env_steps: Where it is known, rising.
        values: What it is there; finite.
        left_out: Values that were not finite, or of evaluations with quarantined episodes.
        names: Every metric that the run has.
    """

    env_steps: Floats
    values: Floats
    left_out: int
    names: frozenset[str]

    def at(self, env_steps: float) -> float:
        """The newest value at or before so many steps; NaN where there is none."""
        index = int(np.searchsorted(self.env_steps, env_steps, side="right"))
        return float(self.values[index - 1]) if index else math.nan

    @property
    def last(self) -> float:
        """The newest value; NaN without any."""
        return self.at(math.inf)

    def best(self, env_steps: float = math.inf, *, lower: bool = False) -> float:
        """The highest value up to so many steps, or the lowest; NaN where there is none."""
        known = self.values[self.env_steps <= env_steps]
        if not known.size:
            return math.nan
        return float(known.min() if lower else known.max())

    def steps_to(self, score: float, *, lower: bool = False) -> float:
        """Environment steps of the first value that reaches a score; infinity if none does."""
        reached = np.flatnonzero(self.values <= score if lower else self.values >= score)
        return float(self.env_steps[reached[0]]) if reached.size else math.inf


def read_series(run: Path, metric: str) -> Series:
    """A metric of a run, which may be training."""
    curves = GrowingCurves(run, [metric])
    curves.read()
    return curves.series(metric)


class GrowingCurves:
    """Metrics of a run that may be training; only what is new is read again.

    With ``most_points`` a series keeps at most twice as many, evenly over environment steps, the
    last one of each stretch; without, all.
    """

    def __init__(self, run: Path, metrics: Sequence[str], most_points: int | None = None) -> None:
        self._tail = Tail(RunDirectory(run).metrics)
        self._points = {metric: _Points(metric, most_points) for metric in metrics}
        self._names: set[str] = set()

    def read(self) -> bool:
        """Read on; returns whether anything has changed."""
        changed = False
        while True:
            anew, lines = self._tail.read()
            if anew:
                self._forget()
            changed |= anew or bool(lines)
            if not lines:
                return changed
            for row in filter(None, map(decode_row, lines)):
                self._names.update(row.values)
                for points in self._points.values():
                    points.take(row)

    def best(self, metric: str) -> float:
        """The highest value of one of the metrics, kept or not; NaN without any."""
        return self._points[metric].best

    def series(self, metric: str) -> Series:
        """What is known of one of the metrics."""
        points = self._points[metric]
        known = sorted(points.known.values())
        steps, values = np.array(known, np.float64).reshape(-1, 2).T
        return Series(steps, values, points.left_out, frozenset(self._names))

    def _forget(self) -> None:
        self._names.clear()
        for points in self._points.values():
            points.forget()


class _Points:
    """The values of a metric, one for each stretch of environment steps."""

    def __init__(self, metric: str, most: int | None) -> None:
        self._metric = metric
        self._share = _quarantined(metric)
        self._most = most
        self.forget()

    def forget(self) -> None:
        self.known: dict[int, tuple[int, float]] = {}
        self.left_out = 0
        self.best = math.nan
        self._stretch = 1

    def take(self, row: MetricsRow) -> None:
        if self._metric not in row.values:
            return
        value = row.values[self._metric]
        unknown = self._share and row.values.get(self._share)
        if value is None or not math.isfinite(value) or unknown:
            self.left_out += 1
            return
        self.best = max(value, self.best)  # in this order, since nothing is more than NaN
        self._keep(row.env_steps, value)
        if self._most is not None and len(self.known) > 2 * self._most:
            self._stretch *= 2
            before, self.known = self.known, {}
            for steps, kept in before.values():
                self._keep(steps, kept)

    def _keep(self, env_steps: int, value: float) -> None:
        place = env_steps // self._stretch
        if place not in self.known or self.known[place][0] <= env_steps:
            self.known[place] = env_steps, value  # of two at one step the later one


def _quarantined(metric: str) -> str:
    """What says how much of the evaluation of a metric is not known; empty if it is of none."""
    group, name = metric.split("/", 1) if "/" in metric else (metric, "")
    if group == "evaluation":  # in another environment, which comes next
        return f"{group}/{name.split('/', 1)[0]}/quarantined_share"
    return "eval/quarantined_share" if group in ("eval", "eval_info") else ""


@dataclass(frozen=True)
class Band:
    """A metric of several runs on one axis.

    Attributes:
        env_steps: The axis, rising.
        mean: Over the runs that are known there.
        std: Their standard deviation with n - 1, 0 where there is one.
        n: How many those are.
        low: The lowest of them.
        high: The highest.
    """

    env_steps: Floats
    mean: Floats
    std: Floats
    n: NDArray[np.int64]
    low: Floats
    high: Floats


def band(series: Sequence[Series]) -> Band:
    """Put runs on a common axis, between whose own points values are interpolated.

    A run is known from its first value to its last. The band ends where less than half of the runs
    are: beyond it stands the mean of few that happened to go on.
    """
    drawn = [each for each in series if each.values.size]
    if not drawn:
        none = np.zeros(0)
        return Band(none, none, none, np.zeros(0, np.int64), none, none)
    axis = _thinned(np.unique(np.concatenate([each.env_steps for each in drawn])))
    rows = np.stack(
        [np.interp(axis, s.env_steps, s.values, left=np.nan, right=np.nan) for s in drawn]
    )
    n = np.isfinite(rows).sum(axis=0)
    kept = 2 * n >= len(drawn)
    axis, rows, n = axis[kept], rows[:, kept], n[kept]
    mean = np.nanmean(rows, axis=0)
    squares = np.nansum((rows - mean) ** 2, axis=0)
    std = np.sqrt(squares / np.maximum(n - 1, 1))
    return Band(axis, mean, std, n, np.nanmin(rows, axis=0), np.nanmax(rows, axis=0))


def _thinned(axis: Floats) -> Floats:
    if axis.size <= _MOST_POINTS:
        return axis
    picked = np.linspace(0, axis.size - 1, _MOST_POINTS).round().astype(np.int64)
    return axis[picked]
