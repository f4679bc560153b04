"""Gathers what happened between two rows of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fast_core.events import Record, Trained
from fast_core.monitor.view import EvaluationView
from fast_core.scheduler.statistics import Statistics


class MetricsRows:
    """Averages the learner's metrics over an interval and adds the scheduler's counters."""

    def __init__(self, interval_s: float, begun: Statistics) -> None:
        """``begun`` are the counters at the start of this process, for rates."""
        self._interval_s = interval_s
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._evaluation: dict[str, float] = {}
        self._last_s: float | None = None
        self._last = (begun.env_steps_trained, begun.updates)
        self._pending = False

    def trained(self, event: Trained) -> None:
        """Add one ticket's metrics."""
        self._pending = True
        for name, value in event.metrics.items():
            if math.isfinite(value):
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1

    def evaluated(self, view: EvaluationView, lengths: Sequence[int]) -> None:
        """Add an evaluation; it is written at the env step of the version that was evaluated."""
        self._evaluation = {
            "eval/return_mean": view.mean,
            "eval/return_std": view.std,
            "eval/length_mean": sum(lengths) / max(1, len(lengths)),
            "eval/version": float(view.version),
            "eval/env_steps": float(view.env_steps),
        }

    def due(
        self, now_s: float, statistics: Callable[[], Statistics], *, force: bool
    ) -> Record | None:
        """A row, if the interval is over and there is anything to say."""
        if self._last_s is None:
            self._last_s = now_s
        elapsed_s = now_s - self._last_s
        if not (self._pending or self._evaluation):
            return None
        if not force and elapsed_s < self._interval_s and not self._evaluation:
            return None
        current = statistics()
        values = {name: total / self._counts[name] for name, total in self._sums.items()}
        values |= self._evaluation | _scheduler_values(current)
        if elapsed_s > 0:
            values["time/env_steps_per_s"] = (current.env_steps_trained - self._last[0]) / elapsed_s
            values["time/updates_per_s"] = (current.updates - self._last[1]) / elapsed_s
        self._sums, self._counts, self._evaluation = {}, {}, {}
        self._last, self._last_s = (current.env_steps_trained, current.updates), now_s
        self._pending = False
        return Record(current.env_steps_trained, current.updates, current.elapsed_s, values)


def _scheduler_values(current: Statistics) -> dict[str, float]:
    values = {
        "rollout/episodes": float(current.episodes),
        "rollout/quarantined": float(current.quarantined),
        "scheduler/lag_mean": current.lag_now,
        "scheduler/lag_max": float(current.lag_max),
        "scheduler/degree": float(current.degree),
        "scheduler/evaluations_coalesced": float(current.evaluations_coalesced),
    }
    if current.return_mean is not None and current.length_mean is not None:
        values["rollout/return_mean"] = current.return_mean
        values["rollout/length_mean"] = current.length_mean
    return values
