"""A metric over environment steps: of one run, and of several on one axis. Pure but for reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.run_directory import RunDirectory

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

    def best(self, env_steps: float = math.inf) -> float:
        """The highest value up to so many steps; NaN where there is none."""
        known = self.values[self.env_steps <= env_steps]
        return float(known.max()) if known.size else math.nan

    def steps_to(self, score: float) -> float:
        """Environment steps of the first value that reaches a score; infinity if none does."""
        reached = np.flatnonzero(self.values >= score)
        return float(self.env_steps[reached[0]]) if reached.size else math.inf


def read_series(run: Path, metric: str) -> Series:
    """A metric of a run, which may be training."""
    known: dict[int, float] = {}
    names: set[str] = set()
    left_out = 0
    share = _quarantined(metric)
    for row in read_rows(RunDirectory(run).metrics):
        names.update(row.values)
        if metric not in row.values:
            continue
        value = row.values[metric]
        if value is None or not math.isfinite(value) or (share and row.values.get(share)):
            left_out += 1
        else:
            known[row.env_steps] = value  # of two at one step the later one
    steps = sorted(known)
    values = np.array([known[step] for step in steps], np.float64)
    return Series(np.array(steps, np.float64), values, left_out, frozenset(names))


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
    """

    env_steps: Floats
    mean: Floats
    std: Floats
    n: NDArray[np.int64]


def band(series: Sequence[Series]) -> Band:
    """Put runs on a common axis, between whose own points values are interpolated.

    A run is known from its first value to its last. The band ends where less than half of the runs
    are: beyond it stands the mean of few that happened to go on.
    """
    drawn = [each for each in series if each.values.size]
    if not drawn:
        none = np.zeros(0)
        return Band(none, none, none, np.zeros(0, np.int64))
    axis = _thinned(np.unique(np.concatenate([each.env_steps for each in drawn])))
    rows = np.stack(
        [np.interp(axis, s.env_steps, s.values, left=np.nan, right=np.nan) for s in drawn]
    )
    n = np.isfinite(rows).sum(axis=0)
    kept = 2 * n >= len(drawn)
    axis, rows, n = axis[kept], rows[:, kept], n[kept]
    mean = np.nanmean(rows, axis=0)
    squares = np.nansum((rows - mean) ** 2, axis=0)
    return Band(axis, mean, np.sqrt(squares / np.maximum(n - 1, 1)), n)


def _thinned(axis: Floats) -> Floats:
    if axis.size <= _MOST_POINTS:
        return axis
    picked = np.linspace(0, axis.size - 1, _MOST_POINTS).round().astype(np.int64)
    return axis[picked]
