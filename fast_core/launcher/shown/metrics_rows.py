"""Gathers what happened between two rows of metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fast_core.launcher.shown.replay_figures import ReplayCounters, metrics_values
from fast_core.messages import Evaluated, Figures, Record, Trained
from fast_core.policy.episodes import evaluation_figures
from fast_core.scheduler.statistics import Statistics


def evaluation_row(event: Evaluated, time_s: float) -> Record:
    """A row for an evaluation, at the env step and the version that were evaluated."""
    values: dict[str, float] = {}
    for environment, played in event.played.items():
        group, info = "eval/", "eval_info/"
        if environment is not None:
            group, info = f"evaluation/{environment}/", f"evaluation/{environment}/info/"
        figures = evaluation_figures(played.returns, played.lengths)
        values |= {f"{group}{name}": value for name, value in figures.items()}
        values |= {f"{info}{name}": value for name, value in played.info.items()}
    videos = {"eval/video": event.video} if event.video else {}
    return Record(event.env_steps, event.version, time_s, values, videos)


class MetricsRows:
    """Averages what tickets report over an interval and adds the scheduler's counters."""

    def __init__(
        self, interval_s: float, begun: Statistics, replay: ReplayCounters | None = None
    ) -> None:
        """``begun`` are the counters at the start of this process, for rates."""
        self._interval_s, self._replay = interval_s, replay
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._last_s: float | None = None
        self._last_elapsed_s = begun.elapsed_s
        self._last = (begun.env_steps_trained, begun.updates)
        self._episodes = begun.episodes
        self._pending = False

    def trained(self, event: Trained) -> None:
        """Add one ticket's metrics."""
        self._pending = True
        self._add({**event.metrics, "scheduler/lag_mean": event.lag_mean})

    def figures(self, event: Figures) -> None:
        """Add what a node logs, under its name."""
        self._pending = True
        self._add({f"{event.node}/{name}": value for name, value in event.values.items()})

    def _add(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if math.isfinite(value):
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1

    def due(
        self, now_s: float, statistics: Callable[[], Statistics], *, force: bool
    ) -> Record | None:
        """A row, if the interval is over and there is anything to say."""
        if self._last_s is None:
            self._last_s = now_s
        elapsed_s = now_s - self._last_s
        if not self._pending or (elapsed_s < self._interval_s and not force):
            return None
        current = statistics()
        # Training time, which begins when every node is ready, not the time of the first row.
        elapsed_s = current.elapsed_s - self._last_elapsed_s
        values = {name: total / self._counts[name] for name, total in self._sums.items()}
        values |= _scheduler_values(current)
        if current.episodes == self._episodes:  # its point is there already
            for name in ("rollout/return_last", "rollout/length_last"):
                values.pop(name, None)
        if elapsed_s > 0:
            values["time/env_steps_per_s"] = (current.env_steps_trained - self._last[0]) / elapsed_s
            values["time/updates_per_s"] = (current.updates - self._last[1]) / elapsed_s
        if self._replay is not None:
            values |= metrics_values(self._replay.read(current))
        self._sums, self._counts = {}, {}
        self._last, self._last_s = (current.env_steps_trained, current.updates), now_s
        self._last_elapsed_s, self._episodes = current.elapsed_s, current.episodes
        self._pending = False
        return Record(current.env_steps_trained, current.updates, current.elapsed_s, values)


def _scheduler_values(current: Statistics) -> dict[str, float]:
    known: dict[str, float | None] = {
        "rollout/episodes": current.episodes,
        "rollout/quarantined": current.quarantined,
        "rollout/quarantined_share": current.quarantined_share,
        "scheduler/lag_now": current.lag_now,
        "scheduler/lag_run_mean": current.lag_mean,
        "scheduler/lag_max": current.lag_max,
        "scheduler/lag_beyond_round": current.lag_beyond,
        "scheduler/lag_beyond_max": current.lag_beyond_max,
        "scheduler/degree": current.degree,
        "scheduler/rounds_collected": current.tickets_collected,
        "scheduler/rounds_merged": current.tickets_merged,
        "scheduler/rounds_trained": current.tickets_settled,
        "scheduler/evaluations_finished": current.evaluations_finished,
        "scheduler/evaluations_coalesced": current.evaluations_coalesced,
        "scheduler/rows_dropped": current.rows_dropped,
        "scheduler/env_nodes": current.env_nodes,
        "scheduler/env_nodes_lost": current.env_nodes_lost,
        "scheduler/stale_events": current.stale_events,
        "time/collecting_s": current.collecting_s,
        "time/collecting_waits_s": current.collecting_waits_s,
        "time/training_s": current.training_s,
        "time/training_waits_s": current.training_waits_s,
        "scheduler/ess": current.ess,
        "rollout/return_mean": current.return_mean,
        "rollout/length_mean": current.length_mean,
        "rollout/return_std": current.return_std,
        "rollout/return_mean_50": current.return_mean_50,
        "rollout/return_mean_10": current.return_mean_10,
        "rollout/return_last": current.return_last,
        "rollout/length_last": current.length_last,
    }
    values = {name: float(value) for name, value in known.items() if value is not None}
    changed = current.changed.items()
    values |= {f"changed/{key}": float(v) for key, v in changed if isinstance(v, int | float)}
    return values | {f"info/{name}": value for name, value in current.info.items()}
