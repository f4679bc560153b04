"""The scheduler's shell: feeds events to the pure core and carries out what it returns.

The same in process mode and inline; only the hub differs. It starts no process and never waits.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from fast_core.distributed.channel import Hub
from fast_core.errors import TransportError
from fast_core.events import (
    AbandonCheckpoint,
    Command,
    CommitCheckpoint,
    Decision,
    EndRun,
    Evaluated,
    Event,
    Failed,
    Figures,
    Finish,
    LauncherCommand,
    LauncherEvent,
    LogLine,
    NodeExited,
    Ready,
    Respawn,
    Restoring,
    Retire,
    RolloutReady,
    Save,
    Saved,
    Scaled,
    Stop,
    Tell,
    Tick,
    Told,
    Trained,
)
from fast_core.launcher.calling.host import Host
from fast_core.launcher.calling.telling import Telling
from fast_core.launcher.checkpoints.saving import Saving
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.launcher.control.desk import Desk
from fast_core.launcher.control.messages import Status
from fast_core.launcher.failures.kept import Failures
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.interrupts import Interrupts
from fast_core.launcher.prepare import identity, scheduler_settings
from fast_core.launcher.rerunning.recorder import Recorder
from fast_core.launcher.roster import Roster
from fast_core.launcher.shown.chronicle import Chronicle
from fast_core.launcher.shown.metrics_rows import MetricsRows, evaluation_row
from fast_core.launcher.shown.replay_figures import ReplayCounters
from fast_core.launcher.shown.run_status import run_status
from fast_core.launcher.shown.scores import Scores, run_end
from fast_core.memory import StatsRow
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.names import DASHBOARD, METRICS
from fast_core.run.plan import RunPlan
from fast_core.scheduler import CALLBACKS, LAUNCHER, Scheduler, SchedulerSettings, Send
from fast_core.scheduler.statistics import Statistics
from fast_core.screens.served import Served, read_served


class Shell:
    """Everything about a running run that is not a process.

    Attributes:
        plan: The plan, with what a checkpoint has of changes.
        end: How the run ends, once that is decided.
        failures: Everything that went wrong.
        scheduler: What decides; events reach it by `take` alone.
        roster: Which nodes are there.
        scores: What evaluations came to.
        saving: The checkpoint that is being written.
        chronicle: What is written and said of the run.
        telling: What callbacks are told.
        page: Where the page is served; None before it is.
        rounds: How many were trained on in this part of the run.
    """

    def __init__(
        self,
        plan: RunPlan,
        run: RunDirectory,
        hub: Hub,
        stats: Mapping[str, StatsRow],
        progress: Progress,
        scheduler_state: bytes | None,
        config_text: str,
        sources: Sources | None = None,
        callbacks: Host | None = None,
        desk: Desk | None = None,
        came_back: int = 0,
        deaths: Mapping[str, int] = {},
    ) -> None:
        """Open the run's journal and make the scheduler.

        ``config_text`` becomes the run's configuration once every node has accepted it: a resume
        whose overrides don't fit must leave the run as it was. What of ``sources`` has changed
        by then is told. Who asks at ``desk`` is answered. ``came_back`` is how often the run has
        in this call, and ``deaths`` how often which other nodes had died by then.
        """
        self._config_text = config_text
        self.run, self.hub, self.stats = run, hub, stats
        self.progress = progress
        self.end: EndRun | None = None
        self._recorder: Recorder | None = None
        self.scores = Scores(run, tuple(plan.config.evaluation.environments))
        self.started_s, self.began_elapsed_s = time.monotonic(), 0.0
        self.rounds, self._trained_s, self._longest_s = 0, 0.0, 0.0
        self.chronicle = Chronicle(run, progress, config_text, sources, self._elapsed_s)
        self.failures = Failures(self.chronicle.report)
        keep = plan.config.checkpoint.keep
        store = CheckpointStore(run.checkpoints, keep=keep, identity=identity(plan.config))
        self.saving = Saving(store, self.chronicle.report)
        checkpoint = None if plan.checkpoint is None else Path(plan.checkpoint)
        self._desk = desk or Desk(plan.config.checkpoint, Interrupts())
        self._env_steps_per_s = 0.0
        self.telling = Telling(callbacks, run, plan.config.supervision, checkpoint)
        folder = str(run.checkpoints)
        made = scheduler_settings(plan, folder, came_back=came_back, deaths=deaths)
        settings = self._settle(made)
        self.page: Served | None = None
        evaluator = () if settings.evaluator is None else (settings.evaluator,)
        self.roster = Roster(
            plan.names,
            stats,
            awaited=(*settings.working_nodes, *plan.names.policy, *evaluator),
            optional=settings.optional,
            deaths=deaths,
        )
        self.scheduler = Scheduler(settings, scheduler_state)
        begun = self.scheduler.statistics()
        self.plan = replace(plan, changed=begun.changed)
        self.began_env_steps, self.began_updates = begun.env_steps_trained, begun.updates
        self.began_elapsed_s = begun.elapsed_s
        counters = ReplayCounters.of(plan, stats)
        self._rows = MetricsRows(plan.config.metrics.interval_s, begun, counters)
        self.take(Tick())
        self._recorder = self._record(settings) if plan.config.diagnostics.schedule else None

    def _settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """The scheduler's settings, with what it must wait for."""
        return self.telling.settle(settings)

    def _record(self, settings: SchedulerSettings) -> Recorder | None:
        """What writes down the schedule from now on, on the scheduler's clock."""
        text, now_s = self._config_text, self._now_s()
        return Recorder(self.plan, text, self.stats, settings, now_s, self.chronicle.report)

    def _now_s(self) -> float:
        """The scheduler's time."""
        return time.monotonic()

    def receive(self, ready: Sequence[int] | None = None) -> bool:
        """Take all that hub, callbacks and a commit have come to; True if there was anything.

        ``ready`` are the sources that have something (`filenos`), None for any; the hub is asked
        whatever they are.
        """
        events: list[Event | LauncherEvent] = [*self.hub.receive()]
        if ready is None or ready:
            events += self.telling.take()
        if ready is None or not set(self._desk.filenos()).isdisjoint(ready):
            events += self._desk.take(self._status, lambda: self.statistics().checkpoint)
        for event in events:
            self.take(event)
        if ready == []:
            return bool(events)
        if (written := self.saving.take()) is not None:
            self.take(written)
        return bool(events) or written is not None

    def _status(self) -> Status:
        now = self.scheduler.statistics(time.monotonic())
        return run_status(now, self._env_steps_per_s, self.roster.statuses())

    def filenos(self) -> tuple[int, ...]:
        """One is readable once a commit is over, callbacks answer or somebody asks: `receive`."""
        others = [each.fileno() for each in (self.telling.host,) if each is not None]
        return (self.saving.fileno(), *others, *self._desk.filenos())

    def await_others(self, timeout_s: float) -> bool:
        """Wait for a commit or for callbacks, whose threads work; False if neither does."""
        host = self.telling.host
        if not self.saving.busy and (host is None or not host.busy):
            return False
        select.select(self.filenos(), [], [], timeout_s)
        return True

    def take(self, event: Event | LauncherEvent) -> None:
        """Take one event and carry out what follows from it."""
        now_s = self._now_s()
        kind = type(event)
        if kind is RolloutReady or kind is Trained:  # several a round, all others are rare
            self._progressed(event)
        elif self._hear(event, now_s):
            return
        if self._recorder is not None and self.end is None:
            self._recorder.note(event, now_s)
        self._carry_out(self.scheduler.handle(event, now_s))
        if kind is Trained:
            if self.rounds:
                self._longest_s = max(self._longest_s, now_s - self._trained_s)
            self.rounds, self._trained_s = self.rounds + 1, now_s
            self._write_metrics(now_s)
        elif kind is not RolloutReady:
            self._desk.heard(event, saving=self.scheduler.saving, folder=self.run.checkpoints)

    def _progressed(self, event: Event | LauncherEvent) -> None:
        """Count what is shown of collecting and training."""
        if isinstance(event, RolloutReady):
            if event.quarantined:
                self.chronicle.quarantined(event.node, event.quarantined)
        elif isinstance(event, Trained):
            self._rows.trained(event)
            if event.digest:
                self.chronicle.digest(event)

    def _hear(self, event: Event | LauncherEvent, now_s: float) -> bool:
        """Take note of an event; True if it is none of the scheduler's, or not yet."""
        match event:
            case LogLine():
                self.chronicle.log(event)
                return True
            case Figures():
                self._rows.figures(event)
                return True
            case Restoring():
                self.roster.restores(event, now_s)
            case Ready():
                self._ready(event)
            case Evaluated():
                self._evaluated(event)
            case Told():
                self.telling.hear(event)
            case Failed(node) if self.scheduler.spares(event):
                self.roster.retire(node)  # it comes to its end, or is brought to it
            case NodeExited(node) if self.scheduler.spares(event):
                self.roster.left(node)
            case NodeExited() if self.scheduler.survives(event):
                if event.reaped:
                    self._bury(event)
            case Failed(node) if node in self.roster.optional and self.plan.config.mode == "inline":
                self.roster.away.add(node)  # it failed in this process
                self.chronicle.survived(event, incarnation=1, again=False)
            case Failed(node) if self._is_death(event):
                grace_s = self.plan.config.supervision.grace_s
                self.roster.dying.setdefault(node, (now_s + grace_s, event))
                return True
            case Failed() | NodeExited():
                self.end = self.failures.take(event, self.end)
        return False

    def _ready(self, event: Ready) -> None:
        node = event.node
        if self.roster.ready(event) and self.end is None:
            self.chronicle.report(f"{node} is back", "INFO")
        if node == DASHBOARD and (served := read_served(self.run.dashboard)):
            self.page = served
            self.chronicle.page(served)

    def _is_death(self, event: Failed) -> bool:
        """Whether what a node raised only ends the node, which comes back."""
        config = self.plan.config
        if event.node in self.roster.optional:
            return self.end is None
        restarts = config.mode == "process" and config.supervision.restarts.on_error == "restart"
        if not restarts or event.refused or self.end is not None:
            return False
        return self.survives(NodeExited(event.node, event.error, reaped=True))

    def _bury(self, event: NodeExited) -> None:
        """Let nothing of a dead node reach the one that comes back."""
        life, again = self.roster.died(event.node), event.node not in self.roster.optional
        self.chronicle.died(event, life, again=again)

    def survives(self, event: NodeExited) -> bool:
        """Whether the run would go on after this death."""
        return self.scheduler.survives(event) or self.scheduler.spares(event)

    def _evaluated(self, event: Evaluated) -> None:
        self.telling.evaluated(event, best=self.scores.add(event))
        self._send(METRICS, evaluation_row(event, self.scheduler.statistics().elapsed_s))

    def _carry_out(self, sends: list[Send]) -> None:
        for node, command in sends:
            if node == LAUNCHER:
                self._obey(command)
            elif isinstance(command, Save) and (error := self.saving.prepare(command)):
                self.take(Saved(node, command.checkpoint, (), error))
            elif node == CALLBACKS:
                assert isinstance(command, Save)
                self.telling.save(command)
            else:
                self._send(node, cast("Command", command))

    def _obey(self, command: Command | LauncherCommand) -> None:
        match command:
            case Respawn():
                self.roster.respawn(command)
            case Retire(name):
                self.roster.retire(name)
                self._send(name, Stop("finished"))
            case Scaled():
                self._desk.scaled(command)
            case Tell(moment):
                self.telling.tell(moment, self.scheduler.statistics())
            case CommitCheckpoint():
                self.telling.committing(command, self.saving.directory)
                self.saving.commit(command)
                self._desk.committing(self.saving.directory)
            case AbandonCheckpoint(number, error):
                self.saving.abandon(error)
                self._desk.abandoned(number, error)
            case Decision():
                self.chronicle.decided(command)
            case EndRun():
                self.end = command
                self._desk.ended(command.text)

    def _send(self, node: str, command: Command) -> None:
        try:
            self.hub.send(node, command)
        except TransportError as error:
            self.roster.unreachable(node, str(error))

    def _write_metrics(self, now_s: float, *, force: bool = False) -> None:
        record = self._rows.due(now_s, self.scheduler.statistics, force=force)
        if record is not None:
            self._send(METRICS, record)
            self.telling.metrics(record)
            self._env_steps_per_s = record.values.get("time/env_steps_per_s", 0.0)

    def tick_if_due(self) -> None:
        """Give the scheduler the time when it wants it, and end a run whose callback hangs."""
        if self.end is None and (late := self.telling.overdue()) is not None:
            self.take(late)
        wakeup_s = self.scheduler.next_wakeup_s()
        if wakeup_s is not None and time.monotonic() >= wakeup_s:
            self.take(Tick(self._idle_since_s()))

    def round_s(self, now_s: float) -> float:
        """How long rounds took in this part of the run, on the average; 0 before the first.

        The longest is left out of several: the job may have been suspended in it.
        """
        since_s = self.statistics(now_s).elapsed_s - self.began_elapsed_s
        took_s = since_s - (now_s - self._trained_s)
        if self.rounds > 2:
            return (took_s - self._longest_s) / (self.rounds - 1)
        return took_s / self.rounds if self.rounds else 0.0

    def _idle_since_s(self) -> float | None:
        """Since when none of those that the scheduler waits for has been at work."""
        host = self.telling.host  # a callback has a limit of its own
        return None if host is not None and host.busy else self.roster.idle_since_s()

    def overdue(self) -> list[str]:
        """Nodes that are not ready although they had to be by now."""
        missing, due_s = self.roster.missing(), self.scheduler.next_wakeup_s()
        if not due_s or time.monotonic() < due_s or self.end is not None:
            return []
        return missing

    def statistics(self, now_s: float | None = None) -> Statistics:
        """A reading of the scheduler, at ``now_s`` or else at the time of its last event."""
        return self.scheduler.statistics(now_s)

    def stop_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Write the last row of metrics and tell these nodes to stop; see `tell_stop`."""
        self._write_metrics(time.monotonic(), force=True)
        if self.end is not None:
            end = run_end(self.end, self.scheduler.statistics(), self.scores)
            self._send(METRICS, Finish(end))
        return self.tell_stop(nodes)

    def tell_stop(self, nodes: Sequence[str]) -> list[str]:
        """Tell these nodes to stop; returns those that are not connected, yet or any more."""
        reason = self.end.reason if self.end is not None else "failed"
        untold = []
        for node in nodes:
            try:
                self.hub.send(node, Stop(reason))
            except TransportError:
                untold.append(node)
        return untold

    def end_callbacks(self, hurry: Callable[[], bool]) -> None:
        """Tell callbacks of the end."""
        assert self.end is not None
        faults, left = self.telling.end(self.end, self.scheduler.statistics(), hurry)
        if left and not faults:
            self.chronicle.report(f"{left} has not returned, and is not waited for")
        for failed in faults:
            self.take(failed)

    def close(self) -> None:
        """Close the files; what is there of an unfinished checkpoint goes."""
        self.saving.close()
        if self._recorder is not None:
            self._recorder.close()
        self.chronicle.close()

    def _elapsed_s(self) -> float:
        """Seconds since this process began, after those of earlier parts of the run."""
        return self.began_elapsed_s + time.monotonic() - self.started_s
