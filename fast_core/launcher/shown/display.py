"""Turns the state of a run into what a person is shown."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fast_core.launcher.shell import Shell
from fast_core.launcher.shown.records import TraceDrain
from fast_core.launcher.shown.replay_figures import ReplayCounters
from fast_core.memory.stats import StatsSnapshot
from fast_core.monitor.figures import count, duration
from fast_core.monitor.progress import Progress
from fast_core.monitor.view import (
    EvaluationView,
    NodeView,
    ProgressView,
    RoundsView,
    RunSummary,
    StopCondition,
)
from fast_core.nodes.node import NodeState
from fast_core.policy.file import best_policy_path
from fast_core.run.checkpoint_files import complete_names
from fast_core.run.names import REPLAY
from fast_core.scheduler.statistics import Statistics
from fast_core.system import resources
from fast_core.system.threads import default_threads

DRAIN_INTERVAL_S = 0.25


class Display:
    """Builds views when the display wants one."""

    def __init__(self, shell: Shell, progress: Progress, trace: TraceDrain) -> None:
        self._shell, self._progress, self._trace = shell, progress, trace
        self._next_drain_s = 0.0
        self._before: dict[str, tuple[int, int]] = {}
        plan = shell.plan
        self._replay = ReplayCounters.of(plan, shell.stats)
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
        shell, config = self._shell, self._shell.plan.config
        now_s = time.monotonic()
        now = shell.statistics(now_s)
        return ProgressView(
            run_name=config.name,
            seed=config.seed,
            phase=now.phase,
            elapsed_s=now_s - shell.started_s if now.phase == "starting" else now.elapsed_s,
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
            evaluation=shell.scores.last,
            best=shell.scores.best,
            others=_named(shell.scores.lasts),
            lag_mean=now.lag_beyond,
            lag_max=now.lag_beyond_max,
            nodes=tuple(
                self._node(name, shell.stats[name].snapshot())
                for name in shell.plan.names.possible
                if name not in shell.roster.absent
            ),
            cores=self._cores,
            replay=None if self._replay is None else self._replay.read(now),
            restoring=self._restoring(now_s) if now.phase == "starting" else "",
        )

    def _restoring(self, now_s: float) -> str:
        """How far the open episodes of a checkpoint are stepped again, in words."""
        told = self._shell.roster.restoring.values()
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
        stop = self._shell.plan.config.stop
        score = now.evaluation_mean
        stops = []
        if stop.env_steps is not None:
            stops.append(StopCondition("env_steps", now.env_steps_trained, stop.env_steps))
        if stop.updates is not None:
            stops.append(StopCondition("updates", now.updates, stop.updates))
        if stop.time_s is not None:
            stops.append(StopCondition("time_s", now.elapsed_s, stop.time_s))
        if stop.score is not None:
            stops.append(StopCondition("score", score, stop.score))
        return tuple(stops)

    def _node(self, name: str, row: StatsSnapshot) -> NodeView:
        """Shares of busy and waiting time since the last drawing, the current state included."""
        state = NodeState(row.state)
        running_ns = max(0, time.monotonic_ns() - row.state_since_ns) if row.state_since_ns else 0
        idle = state in (NodeState.WAITING, NodeState.STARTING)
        busy_ns = row.busy_ns + (0 if idle else running_ns)
        waiting_ns = row.waiting_ns + (running_ns if idle else 0)
        busy_before, waiting_before = self._before.get(name, (0, 0))
        self._before[name] = (busy_ns, waiting_ns)
        busy, waiting = busy_ns - busy_before, waiting_ns - waiting_before
        total = busy + waiting
        return NodeView(
            name=name,
            state=self._shell.roster.state_of(name),
            busy=busy / total if total > 0 else None,
            waiting=waiting / total if total > 0 else None,
            note=self._note(name, row),
            pid=self._shell.roster.pids.get(name),
            threads=self._shell.plan.roles[name].threads or default_threads(),
        )

    def _note(self, name: str, row: StatsSnapshot) -> str:
        plan = self._shell.plan
        if name in plan.names.steppers:
            count = self._shell.scheduler.executors().count(name)
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

    def summary(self) -> RunSummary:
        """How the run ended."""
        shell, now = self._shell, self._shell.statistics()
        assert shell.end is not None
        kept = shell.plan.kept or shell.end.reason == "failed"
        return RunSummary(
            outcome=shell.end.reason,
            text=shell.end.text,
            run_name=shell.plan.config.name,
            run_directory=str(shell.run.path) if kept else "",
            elapsed_s=now.elapsed_s,
            env_steps=now.env_steps_trained,
            updates=now.updates,
            session_s=now.elapsed_s - shell.began_elapsed_s,
            session_env_steps=now.env_steps_trained - shell.began_env_steps,
            session_updates=now.updates - shell.began_updates,
            best=shell.scores.best,
            last=shell.scores.last,
            others=_named(shell.scores.bests),
            checkpoint=self._newest_checkpoint(),
            policy=best_policy_path(shell.run.path).exists(),
            begun_anew=now.begun_anew,
            warnings=self._progress.warnings,
            deaths=shell.roster.lives,
            nodes_back=now.nodes_back,
            page=shell.plan.config.dashboard.enabled,
        )

    def _newest_checkpoint(self) -> str:
        """As it lies on disk: an earlier part of the run may have written it."""
        folder = self._shell.run.checkpoints
        names = complete_names(folder)
        return str(folder / names[-1]) if names else ""


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
