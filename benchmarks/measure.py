"""What every benchmark shares: alternation, medians, the last line."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping


def alternate(rounds: int, **measured: Callable[[], float]) -> dict[str, float]:
    """Median of each over ``rounds`` rounds; the order turns, so that drift hits all alike."""
    figures: dict[str, list[float]] = {name: [] for name in measured}
    for turn in range(rounds):
        names = list(measured) if turn % 2 == 0 else list(reversed(measured))
        for name in names:
            figures[name].append(measured[name]())
    return {name: statistics.median(values) for name, values in figures.items()}


def print_result(
    name: str, ratio: float, target: float, **medians: float | Mapping[str, float]
) -> None:
    """Prints the last line: one JSON object."""
    result = {"name": name, "ratio": round(ratio, 3), "target": target, **medians}
    print(json.dumps(result))
