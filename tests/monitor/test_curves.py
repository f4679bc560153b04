"""A metric of several runs on one axis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from fast_core.monitor.curves import Series, band, read_series
from tests.tools.made_runs import made_run


def series(points: Mapping[float, float]) -> Series:
    return Series(np.array([*points]), np.array([*points.values()]), 0, frozenset())


def test_band_is_over_the_runs_that_are_known_there() -> None:
    found = band([series({0: 0.0, 100: 10.0}), series({50: 9.0, 100: 12.0}), series({0: 4.0})])
    assert found.env_steps.tolist() == [0, 50, 100]
    assert found.n.tolist() == [2, 2, 2]
    assert found.mean.tolist() == [2.0, 7.0, 11.0]
    deviations = [math.sqrt(8), math.sqrt(8), math.sqrt(2)]
    assert found.std.tolist() == pytest.approx(deviations)


def test_band_ends_where_less_than_half_of_the_runs_go_on() -> None:
    short = {0.0: 1.0, 100.0: 1.0}
    found = band([series(short), series(short), series({**short, 900: 50.0})])
    assert found.env_steps.tolist() == [0, 100]
    assert band([]).env_steps.size == 0


def test_long_series_keeps_both_ends(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[float(i) for i in range(1000)], every=1)
    found = band([read_series(path, "eval/return_mean")])
    assert found.env_steps.size == 300
    assert (found.env_steps[0], found.env_steps[-1]) == (1, 1000)
