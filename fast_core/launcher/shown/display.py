"""Turns the state of a run into what a person is shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from fast_core.launcher.roster import Roster
from fast_core.launcher.shown.replay_figures import ReplayCounters
from fast_core.launcher.shown.scores import Scores
from fast_core.launcher.shown.trace_and_crash import TraceDrain
from fast_core.memory import StatsRow
from fast_core.messages.launching import EndRun
from fast_core.monitor.checkpoint_files import newest_complete
from fast_core.monitor.figures import count, duration
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.view import (
    EvaluationView,
    NodeView,
    ProgressView,
    RoundsView,
    RunSummary,
    StopCondition,
    StopName,
)
from fast_core.nodes.node import time_spent
from fast_core.policy.file import best_policy_path
from fast_core.run.names import REPLAY
from fast_core.run.plan import RunPlan
from fast_core.scheduler import Scheduler
from fast_core.scheduler.statistics import Statistics
from fast_core.system import resources
from fast_core.system.threads import default_threads

DRAIN_INTERVAL_S = 0.25


class Display:
    """Builds views when the display wants one."""

    def __init__(
        self,
        plan: RunPlan,
        scheduler: Scheduler,
        roster: Roster,
        scores: Scores,
        now: Callable[[], Statistics],
        progress: Progress,
        trace: TraceDrain,
    ) -> None:
        """``now`` gives a reading of the scheduler, to which nothing has happened yet."""
        self._plan, self._scheduler, self._roster, self._scores = plan, scheduler, roster, scores
        self._now, self._progress, self._trace = now, progress, trace
        self._began, self._started_s = scheduler.statistics(), time.monotonic()
        self._next_drain_s = 0.0
        self._before: dict[str, tuple[int, int]] = {}
        self._replay = ReplayCounters.of(plan, roster.stats)
        cores = resources.cores()
        word = "core" if cores.granted == 1 else "cores"
        self._cores = f"{cores.granted} {word} granted ({cores.limits})"

    def refresh(self) -> float:
        """Draw if it is time to; returns the monotonic time of the next call wanted."""
        now_s = time.monotonic()
        if now_s >= self._next_drain_s:
            self._trace.drain()
            self._next_drain_s = now_s + DRAIN_INTERVAL_S
        if self._progress.due:
            self._progress.update(self.view())
        return min(self._progress.next_s, self._next_drain_s)

    def view(self) -> ProgressView:
        """The run as it is now."""
        config, scores, roster = self._plan.config, self._scores, self._roster
        now_s, now = time.monotonic(), self._now()
        return ProgressView(
            run_name=config.name,
            seed=config.seed,
            phase=now.phase,
            elapsed_s=now_s - self._started_s if now.phase == "starting" else now.elapsed_s,
            env_steps=now.env_steps_trained,
            updates=now.updates,
            version=now.version,
            degree=now.degree,
            rounds=_rounds(now),
            stops=self._stops(now),
            mean_return=now.return_mean,
            mean_length=now.length_mean,
            episodes=now.episodes,
            quarantined=now.quarantined_share,
            info=now.info,
            evaluation=scores.last,
            best=scores.best,
            others=_named(scores.lasts),
            lag_mean=now.lag_beyond,
            lag_max=now.lag_beyond_max,
            nodes=tuple(
                self._node(name, roster.stats[name].snapshot())
                for name in self._plan.names.possible
                if name not in roster.absent
            ),
            cores=self._cores,
            replay=None if self._replay is None else self._replay.read(now),
            restoring=self._restoring(now_s) if now.phase == "starting" else "",
        )

    def _restoring(self, now_s: float) -> str:
        """How far the open episodes of a checkpoint are stepped again, in words."""
        told = self._roster.restoring.values()
        taken, steps = (sum(getattr(e, n) for _, e in told) for n in ("taken", "steps"))
        if taken >= steps:
            return ""
        left = [
            (now_s - since_s) * (event.steps / event.taken - 1)
            for since_s, event in told
            if event.taken
        ]
        time_left = f", about {duration(max(left))} left" if left else ""
        return f"stepping open episodes again, {count(taken)} of {count(steps)} steps{time_left}"

    def _stops(self, now: Statistics) -> tuple[StopCondition, ...]:
        stop = self._plan.config.stop
        conditions: tuple[tuple[StopName, float | None, float | None], ...] = (
            ("env_steps", now.env_steps_trained, stop.env_steps),
            ("updates", now.updates, stop.updates),
            ("time_s", now.elapsed_s, stop.time_s),
            ("score", now.evaluation_mean, stop.score),
        )
        return tuple(
            StopCondition(name, current, limit)
            for name, current, limit in conditions
            if limit is not None
        )

    def _node(self, name: str, row: StatsRow) -> NodeView:
        """Shares of busy and waiting time since the last drawing, the current state included."""
        busy_ns, waiting_ns, _ = time_spent(row)
        busy_before, waiting_before = self._before.get(name, (0, 0))
        self._before[name] = (busy_ns, waiting_ns)
        busy, waiting = busy_ns - busy_before, waiting_ns - waiting_before
        total = busy + waiting
        return NodeView(
            name=name,
            state=self._roster.state_of(name),
            busy=busy / total if total > 0 else None,
            waiting=waiting / total if total > 0 else None,
            note=self._note(name, row),
            pid=self._roster.pids.get(name),
            threads=self._plan.roles[name].threads or default_threads(),
        )

    def _note(self, name: str, row: StatsRow) -> str:
        plan = self._plan
        if name in plan.names.steppers:
            count = self._scheduler.executors().count(name)
            late = f", {row.late_replies} late replies" if row.late_replies else ""
            return f"{count} shard" + "s" * (count != 1) + late
        if name in plan.names.optimizers:
            wait_ms = row.batch_wait_ns / row.batches / 1e6 if row.batches else 0.0
            waits = f", waits {wait_ms:.2g} ms a batch" if row.batches else ""
            return plan.config.nodes.optimizer.device + waits
        if name == REPLAY:
            return f"{row.drawn:,} windows drawn"
        if name in plan.names.actors:
            rows = f", {row.rows / row.batches:.3g} rows a pass" if row.batches else ""
            return plan.config.nodes.policy.device + rows
        return ""

    def summary(self, end: EndRun) -> RunSummary:
        """How the run ended."""
        began, now = self._began, self._scheduler.statistics()
        run = RunDirectory(Path(self._plan.run_directory))
        kept = self._plan.kept or end.reason == "failed"
        return RunSummary(
            outcome=end.reason,
            text=end.text,
            run_name=self._plan.config.name,
            run_directory=str(run.path) if kept else "",
            elapsed_s=now.elapsed_s,
            env_steps=now.env_steps_trained,
            updates=now.updates,
            session_s=now.elapsed_s - began.elapsed_s,
            session_env_steps=now.env_steps_trained - began.env_steps_trained,
            session_updates=now.updates - began.updates,
            best=self._scores.best,
            last=self._scores.last,
            others=_named(self._scores.bests),
            checkpoint=str(newest_complete(run.checkpoints) or ""),
            policy=best_policy_path(run.path).exists(),
            begun_anew=now.begun_anew,
            warnings=self._progress.warnings,
            deaths=self._roster.lives,
            nodes_back=now.nodes_back,
            page=self._plan.config.dashboard.enabled,
        )


def _rounds(now: Statistics) -> RoundsView:
    return RoundsView(
        way=now.way,
        collected=now.tickets_collected,
        merged=now.tickets_merged,
        trained=now.tickets_settled,
        collecting=_share(now.collecting_s, now.collecting_waits_s),
        training=_share(now.training_s, now.training_waits_s),
        ess=now.ess,
        clip_fraction=now.clip_fraction,
        evaluations=now.evaluations_finished,
        coalesced=now.evaluations_coalesced,
        rows_dropped=now.rows_dropped,
        env_nodes_lost=now.env_nodes_lost,
        stale_events=now.stale_events,
    )


def _share(part: float, rest: float) -> float | None:
    return part / (part + rest) if part + rest > 0 else None


def _named(views: Mapping[str | None, EvaluationView]) -> dict[str, EvaluationView]:
    """Those of ``evaluation.environments``."""
    return {name: view for name, view in views.items() if name is not None}
