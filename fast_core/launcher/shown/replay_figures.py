"""What the replay node and the optimizers have counted, for the display and the metrics."""

from __future__ import annotations

from collections.abc import Mapping

from fast_core.memory import StatsRow
from fast_core.monitor.view import ReplayView
from fast_core.run.names import REPLAY
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_log
from fast_core.scheduler.statistics import Statistics


class ReplayCounters:
    """Readings of the counters, each with means over what happened since the one before.

    Where nothing happened, the mean of before stands.

    The display and the metrics have one each.
    """

    def __init__(self, plan: RunPlan, stats: Mapping[str, StatsRow]) -> None:
        """Begins where the counters are; ``plan`` is of a run that learns from replay."""
        self._plan, self._stats = plan, stats
        self._before = self._rows()
        self._age: float | None = None
        self._rejected: float | None = None
        self._staleness: float | None = None

    @classmethod
    def of(cls, plan: RunPlan, stats: Mapping[str, StatsRow]) -> ReplayCounters | None:
        """Those of any run; None where nobody draws."""
        return cls(plan, stats) if plan.names.replay else None

    def read(self, scheduler: Statistics) -> ReplayView:
        """The counters now, and what the scheduler says about learning."""
        before, (replay, optimizers) = self._before, self._rows()
        self._before = replay, optimizers
        drawn, rejected, lapped, aged, age_sum = (
            getattr(replay, name) - getattr(before[0], name)
            for name in ("drawn", "rejected", "lapped", "aged", "age_sum")
        )
        steps = sum(row.batches for row in optimizers) - sum(row.batches for row in before[1])
        stale = optimizers[0].staleness_sum - before[1][0].staleness_sum
        config = self._plan.config
        self._age = _share(age_sum * config.envs, aged, self._age)
        self._rejected = _share(rejected, drawn + rejected + lapped, self._rejected)
        if self._plan.shares_async:
            self._staleness = _share(stale, steps, self._staleness)
        return ReplayView(
            rows=replay.live_rows,
            capacity=rows_per_log(self._plan) * config.envs,
            learning_from=scheduler.learning_from,
            updates_per_env_step=scheduler.replay_ratio,
            age=self._age,
            rejected=self._rejected,
            lapped=replay.lapped,
            refused_values=replay.refused_values,
            refused_stale=replay.refused_stale,
            empty_batches=replay.empty_batches,
            staleness=self._staleness,
            staleness_max=optimizers[0].staleness_max,
        )

    def _rows(self) -> tuple[StatsRow, list[StatsRow]]:
        replay = self._stats[REPLAY].snapshot()
        return replay, [self._stats[name].snapshot() for name in self._plan.names.optimizers]


def _share(part: int, whole: int, otherwise: float | None) -> float | None:
    return part / whole if whole > 0 else otherwise


def metrics_values(view: ReplayView) -> dict[str, float]:
    """What of it goes into a row of metrics, by name; what is not known is left out."""
    values: dict[str, float | None] = {
        "replay/rows": view.rows,
        "replay/updates_per_env_step": view.updates_per_env_step,
        "replay/age_env_steps": view.age,
        "replay/rejected_share": view.rejected,
        "replay/lapped": view.lapped,
        "replay/refused_values": view.refused_values,
        "replay/refused_stale": view.refused_stale,
        "replay/empty_batches": view.empty_batches,
        # The mean comes with the steps.
        "train/gradient_staleness_max": None if view.staleness is None else view.staleness_max,
    }
    return {name: float(value) for name, value in values.items() if value is not None}
