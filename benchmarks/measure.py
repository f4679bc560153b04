"""What every benchmark shares: alternation, medians, the last line."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

Figures = Mapping[str, float | None]


def alternate(rounds: int, **measured: Callable[[], float]) -> dict[str, float]:
    """Median of each over ``rounds`` rounds; the order turns, so that drift hits all alike."""
    figures: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(rounds):
        names = list(measured) if turn % 2 == 0 else list(reversed(measured))
        for name in names:
            figures[name].append(measured[name]())
    return {name: statistics.median(values) for name, values in figures.items()}


def medians(rounds: Sequence[Figures]) -> dict[str, float]:
    """Median of every figure over the rounds that have it."""
    names = dict.fromkeys(name for figures in rounds for name in figures)
    found = {name: [f[name] for f in rounds if f.get(name) is not None] for name in names}
    return {name: statistics.median(values) for name, values in found.items() if values}


def installed(distribution: str) -> str | None:
    """Version of an installed distribution, or None: then the peer is named and skipped."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def print_result(
    name: str,
    ratio: float | None,
    target: float,
    *,
    better: Literal["higher", "lower"] = "higher",
    skipped: Sequence[str] = (),
    **medians: float | None,
) -> None:
    """Print the last line: one JSON object.

    Args:
        name: The benchmark.
        ratio: What was measured, or None where the peer is not installed.
        target: What it is meant to reach.
        better: Whether a ratio above or below the target is good.
        skipped: What was not measured.
        **medians: The figures behind the ratio, units in their names.
    """
    result = {
        "name": name,
        "ratio": None if ratio is None else round(ratio, 3),
        "target": target,
        "better": better,
        "medians": {key: _rounded(value) for key, value in medians.items()},
        "skipped": list(skipped),
        "machine": machine(),
    }
    print(json.dumps(result), flush=True)


def machine() -> dict[str, str | int | float | None]:
    """What the figures were measured on; the load is that of the last minute, ours included."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": installed("numpy"),
        "torch": installed("torch"),
        "gymnasium": installed("gymnasium"),
    }


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def _rounded(value: float | None) -> float | None:
    """Four significant digits, more for large numbers: beyond that a timing is noise."""
    if value is None or not isinstance(value, float):
        return value
    return float(f"{value:.4g}") if abs(value) < 1000 else round(value)
