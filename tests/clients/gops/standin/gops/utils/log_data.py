"""Averages of figures."""

from __future__ import annotations


class LogData:
    def __init__(self) -> None:
        self._figures: dict[str, list[float]] = {}

    def add_average(self, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self._figures.setdefault(name, []).append(value)

    def pop(self) -> dict[str, float]:
        figures, self._figures = self._figures, {}
        return {name: sum(values) / len(values) for name, values in figures.items()}
