"""Curves of many runs, each read on as it grows, and of those that differ in their seeds as one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from fast_core.monitor.curves import Band, Floats, GrowingCurves, band
from fast_core.monitor.run_state import RETURN, TRAINING_RETURN

METRICS = (RETURN, TRAINING_RETURN)
_POINTS = 300  # at least, of each series, where a run has more
_RUNS = 400  # whose points are kept, those asked for last; at most about 100 MB
_DIGITS = 6  # significant ones; more than a screen shows


class Curve(msgspec.Struct, frozen=True):
    """A metric of one run, or of several that differ in their seeds.

    Attributes:
        env_steps: The axis, rising.
        mean: Over the runs that are known there, between whose own points it is interpolated.
        low: The lowest of them.
        high: The highest.
        std: Their standard deviation with n - 1; 0 where there is one.
        n: How many those are: none is continued beyond its last value.
        runs: How many have any value.
    """

    env_steps: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    std: list[float]
    n: list[int]
    runs: int


class Curves:
    """The curves of runs by their directories; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[Path, tuple[str, ...]], GrowingCurves] = OrderedDict()

    def of(self, path: Path, metric: str = RETURN) -> GrowingCurves:
        """Those of a run as they are now, a metric beside `METRICS` by itself."""
        key = path, METRICS if metric in METRICS else (metric,)
        curves = self._read.pop(key, None)
        if curves is None:
            curves = GrowingCurves(path, key[1], _POINTS)
        self._read[key] = curves
        if len(self._read) > _RUNS:
            self._read.popitem(last=False)
        curves.read()
        return curves

    def forget(self, path: Path) -> None:
        """A run is no more."""
        for key in [each for each in self._read if each[0] == path]:
            del self._read[key]

    def names(self, paths: Iterable[Path]) -> list[str]:
        """Every metric that one of the runs has."""
        return sorted({name for path in paths for name in self.of(path).series(RETURN).names})

    def curve(self, seeds: Sequence[Sequence[Path]], metric: str) -> Curve:
        """A metric over seeds.

        Args:
            seeds: The runs of each seed, newest first; the first that has a value counts, so that
                a seed is one sample.
            metric: Its name in ``metrics.jsonl``.
        """
        known = []
        for runs in seeds:
            series = (self.of(path, metric).series(metric) for path in runs)
            if (first := next((one for one in series if one.values.size), None)) is not None:
                known.append(first)
        return _curve(band(known), len(known))


def _curve(band: Band, runs: int) -> Curve:
    steps = band.env_steps.astype(np.int64).tolist()
    mean, low, high, std = map(_short, (band.mean, band.low, band.high, band.std))
    return Curve(steps, mean, low, high, std, band.n.tolist(), runs)


def _short(values: Floats) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
