"""The scheduler's shell: feeds events to the pure core and carries out what it returns.

The same in process mode and inline; only the hub differs. It starts no process and never waits.
"""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from fast_core import messages
from fast_core.errors import TransportError
from fast_core.launcher.checkpoints.saving import Saving
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.launcher.conductor import Conductor
from fast_core.launcher.failures.kept import Failures
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.listener import Listener, NewRun
from fast_core.launcher.prepare import identity, scheduler_settings
from fast_core.launcher.roster import Roster
from fast_core.launcher.shown.chronicle import Chronicle
from fast_core.launcher.shown.metrics_rows import MetricsRows, evaluation_row
from fast_core.launcher.shown.replay_figures import ReplayCounters
from fast_core.launcher.shown.scores import Scores, run_end
from fast_core.memory import StatsRow
from fast_core.messages import launching
from fast_core.messages.channel import Hub
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served, read_served
from fast_core.run.names import DASHBOARD, METRICS, OPTIMIZER
from fast_core.run.plan import RunPlan
from fast_core.scheduler import CALLBACKS, LAUNCHER, Scheduler, Send
from fast_core.scheduler.statistics import Statistics


class Shell:
    """Everything about a running run that is not a process.

    Attributes:
        plan: The plan, with what a checkpoint has of changes.
        conductor: What gives it time and turn.
        end: How the run ends, once that is decided.
        failures: Everything that went wrong.
        scheduler: What decides; events reach it by `take` alone.
        roster: Which nodes are there.
        scores: What evaluations came to.
        saving: The checkpoint that is being written.
        chronicle: What is written and said of the run.
        page: Where the page is served; None before it is.
        rounds: How many were trained on in this part of the run.
        began: What the scheduler knew at its beginning.
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
        listeners: Sequence[Listener] = (),
        conductor: Conductor | None = None,
        scores: Scores | None = None,
        came_back: int = 0,
        deaths: Mapping[str, int] = {},
    ) -> None:
        """Open the run's journal and make the scheduler.

        ``config_text`` becomes the run's configuration once every node has accepted it: a resume
        whose overrides don't fit must leave the run as it was. What of ``sources`` has changed
        by then is told. ``came_back`` is how often the run has in this call, and ``deaths`` how
        often which other nodes had died by then.
        """
        self.run, self.hub, self.progress = run, hub, progress
        self.conductor, self._listeners = conductor or Conductor(), tuple(listeners)
        self.end: launching.EndRun | None = None
        self.scores = scores or Scores(run, tuple(plan.config.evaluation.environments))
        self._started_s, self._began_elapsed_s = time.monotonic(), 0.0
        self.rounds, self._trained_s, self._longest_s = 0, 0.0, 0.0
        self.chronicle = Chronicle(run, progress, config_text, sources, self._elapsed_s)
        self.failures = Failures(self.chronicle.report)
        keep = plan.config.checkpoint.keep
        store = CheckpointStore(run.checkpoints, keep=keep, identity=identity(plan.config))
        self.saving = Saving(store, self.chronicle.report)
        folder = str(run.checkpoints)
        settings = self.conductor.settle(
            scheduler_settings(plan, folder, came_back=came_back, deaths=deaths)
        )
        for listener in self._listeners:
            settings = listener.settle(settings)
        self.page: Served | None = None
        evaluator = () if settings.evaluator is None else (settings.evaluator,)
        self.roster = Roster(
            plan.names,
            stats,
            awaited=(*settings.working_nodes, *settings.followers, *plan.names.policy, *evaluator),
            optional=settings.optional,
            deaths=deaths,
        )
        self.scheduler = Scheduler(settings, scheduler_state)
        self.began = self.scheduler.statistics()
        self.plan = replace(plan, changed=self.began.changed)
        self._began_elapsed_s = self.began.elapsed_s
        counters = ReplayCounters.of(plan, stats)
        self._rows = MetricsRows(plan.config.metrics.interval_s, self.began, counters)
        now_s = self.conductor.now_s()
        self._carry_out(self.scheduler.handle(launching.Tick(), now_s))
        beginning = NewRun(self.scheduler, settings, self.roster, now_s)
        for listener in self._listeners:
            listener.begin(beginning)

    def receive(self, ready: Sequence[int] | None = None) -> bool:
        """Take all that nodes, listeners and a commit have come to; True if there was anything.

        ``ready`` are the sources that have something (`filenos`), None for any; nodes are asked
        whatever they are.
        """
        took = False
        for event in self.conductor.receive(self.hub):
            took = True
            self.take(event)
        if self.end is None:
            self.end = self.conductor.over()
        if ready == []:
            return took
        for listener in self._listeners:
            for news in listener.take():
                took = True
                self.take(news)
        if (written := self.saving.take()) is not None:
            self.take(written)
        return took or written is not None

    def filenos(self) -> tuple[int, ...]:
        """One is readable once a commit is over or a listener has something: `receive`."""
        others = (number for listener in self._listeners for number in listener.filenos())
        return (self.saving.fileno(), *others)

    def await_others(self, timeout_s: float) -> bool:
        """Wait for a commit or for listeners, whose threads work; False if none does."""
        if self.saving.busy or self._listeners_work():
            select.select(self.filenos(), [], [], timeout_s)
            return True
        self.end = self.conductor.exhausted()
        return self.end is not None

    def _listeners_work(self) -> bool:
        return any(listener.busy for listener in self._listeners)

    def take(self, event: messages.Event | launching.LauncherEvent) -> None:
        """Take one event and carry out what follows from it."""
        now_s = self.conductor.now_s()
        kind = type(event)
        # These come several times a round, all others are rare.
        if kind is messages.RolloutReady or kind is messages.Trained:
            self._progressed(event)
        elif self._hear(event, now_s):
            return
        if self.end is None:
            for listener in self._listeners:
                listener.hear(event, now_s)
        self._carry_out(self.scheduler.handle(event, now_s))
        if isinstance(event, messages.Trained):
            if event.node != OPTIMIZER:  # metrics are those of the first learner
                return
            if self.rounds:
                self._longest_s = max(self._longest_s, now_s - self._trained_s)
            self.rounds, self._trained_s = self.rounds + 1, now_s
            self._write_metrics(now_s)
        elif kind is not messages.RolloutReady:
            for listener in self._listeners:
                listener.heard(event)

    def _progressed(self, event: messages.Event | launching.LauncherEvent) -> None:
        """Count what is shown of collecting and training."""
        if isinstance(event, messages.RolloutReady):
            if event.quarantined:
                self.chronicle.quarantined(event.node, event.quarantined)
        elif isinstance(event, messages.Trained):
            if event.node == OPTIMIZER:
                self._rows.trained(event)
            if event.digest:
                self.chronicle.digest(event)

    def _hear(self, event: messages.Event | launching.LauncherEvent, now_s: float) -> bool:
        """Take note of an event; True if it is none of the scheduler's, or not yet."""
        inline = self.plan.config.mode == "inline"
        match event:
            case messages.LogLine():
                self.chronicle.log(event)
                return True
            case messages.Figures():
                self._rows.figures(event)
                return True
            case messages.Restoring():
                self.roster.restores(event, now_s)
            case messages.Ready():
                self._ready(event)
            case messages.Evaluated():
                self._evaluated(event)
            case messages.Failed(node) if self.scheduler.spares(event):
                self.roster.retire(node)  # it comes to its end, or is brought to it
            case messages.NodeExited(node) if self.scheduler.spares(event):
                self.roster.left(node)
            case messages.NodeExited() if self.scheduler.survives(event):
                if event.reaped:
                    self._bury(event)
            case messages.Failed(node) if inline and node in self.roster.optional:
                self.roster.away.add(node)  # it failed in this process
                self.chronicle.survived(event, incarnation=1, again=False)
            case messages.Failed(node) if self._is_death(event):
                grace_s = self.plan.config.supervision.grace_s
                self.roster.dying.setdefault(node, (now_s + grace_s, event))
                return True
            case messages.Failed() | messages.NodeExited():
                self.end = self.failures.take(event, self.end)
        return False

    def _ready(self, event: messages.Ready) -> None:
        node = event.node
        if self.roster.ready(event) and self.end is None:
            self.chronicle.report(f"{node} is back", "INFO")
        if node == DASHBOARD and (served := read_served(self.run.dashboard)):
            self.page = served
            self.chronicle.page(served)

    def _is_death(self, event: messages.Failed) -> bool:
        """Whether what a node raised only ends the node, which comes back."""
        config = self.plan.config
        if event.node in self.roster.optional:
            return self.end is None
        restarts = config.mode == "process" and config.supervision.restarts.on_error == "restart"
        if not restarts or event.refused or self.end is not None:
            return False
        return self.survives(messages.NodeExited(event.node, event.error, reaped=True))

    def _bury(self, event: messages.NodeExited) -> None:
        """Let nothing of a dead node reach the one that comes back."""
        life, again = self.roster.died(event.node), event.node not in self.roster.optional
        self.chronicle.died(event, life, again=again)

    def survives(self, event: messages.NodeExited) -> bool:
        """Whether the run would go on after this death."""
        return self.scheduler.survives(event) or self.scheduler.spares(event)

    def _evaluated(self, event: messages.Evaluated) -> None:
        self.scores.add(event)
        self._send(METRICS, evaluation_row(event, self.scheduler.statistics().elapsed_s))

    def _carry_out(self, sends: list[Send]) -> None:
        for node, command in self.conductor.orders(sends):
            if node == LAUNCHER:
                self._obey(command)
            elif isinstance(command, messages.Save) and (error := self.saving.prepare(command)):
                self.take(messages.Saved(node, command.checkpoint, (), error))
            elif node == CALLBACKS:
                self._pass_on(command)
            else:
                self._send(node, cast("messages.Command", command))

    def _obey(self, command: messages.Command | launching.LauncherCommand) -> None:
        match command:
            case launching.Respawn():
                self.roster.respawn(command)
            case launching.Retire(name):
                self.roster.retire(name)
                self._send(name, messages.Stop("finished"))
            case launching.CommitCheckpoint():
                self.saving.commit(command)
            case launching.AbandonCheckpoint(error=error):
                self.saving.abandon(error)
            case launching.Decision():
                self.chronicle.decided(command)
            case launching.EndRun():
                self.end = command
        self._pass_on(command)

    def _pass_on(self, command: messages.Command | launching.LauncherCommand) -> None:
        for listener in self._listeners:
            listener.obey(command)

    def _send(self, node: str, command: messages.Command) -> None:
        try:
            self.conductor.send(self.hub, node, command)
        except TransportError as error:
            self.roster.unreachable(node, str(error))

    def _write_metrics(self, now_s: float, *, force: bool = False) -> None:
        record = self._rows.due(now_s, self.scheduler.statistics, force=force)
        if record is not None:
            self._send(METRICS, record)
            for listener in self._listeners:
                listener.row(record)

    def tick_if_due(self) -> None:
        """Give the scheduler the time when it wants it, and end a run whose listener hangs."""
        for listener in self._listeners:
            if self.end is None and (late := listener.overdue()) is not None:
                self.take(late)
        wakeup_s = self.scheduler.next_wakeup_s()
        if wakeup_s is not None and self.conductor.due(wakeup_s):
            self.take(launching.Tick(self._idle_since_s()))

    def round_s(self, now_s: float) -> float:
        """How long rounds took in this part of the run, on the average; 0 before the first.

        The longest is left out of several: the job may have been suspended in it.
        """
        since_s = self.scheduler.statistics(now_s).elapsed_s - self.began.elapsed_s
        took_s = since_s - (now_s - self._trained_s)
        if self.rounds > 2:
            return (took_s - self._longest_s) / (self.rounds - 1)
        return took_s / self.rounds if self.rounds else 0.0

    def _idle_since_s(self) -> float | None:
        """Since when none of those that the scheduler waits for has been at work."""
        # What callbacks do has a limit of its own.
        return None if self._listeners_work() else self.roster.idle_since_s()

    def overdue(self) -> list[str]:
        """Nodes that are not ready although they had to be by now."""
        missing, due_s = self.roster.missing(), self.scheduler.next_wakeup_s()
        if not due_s or time.monotonic() < due_s or self.end is not None:
            return []
        return missing

    def now(self) -> Statistics:
        """A reading of the scheduler, now."""
        return self.scheduler.statistics(self.conductor.now_s())

    def stop_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Write the last row of metrics and tell these nodes to stop; see `tell_stop`."""
        self._write_metrics(time.monotonic(), force=True)
        if self.end is not None:
            end = run_end(self.end, self.scheduler.statistics(), self.scores)
            self._send(METRICS, messages.Finish(end))
        return self.tell_stop(nodes)

    def tell_stop(self, nodes: Sequence[str]) -> list[str]:
        """Tell these nodes to stop; returns those that are not connected, yet or any more."""
        reason = self.end.reason if self.end is not None else "failed"
        untold = []
        for node in nodes:
            try:
                self.hub.send(node, messages.Stop(reason))
            except TransportError:
                untold.append(node)
        return untold

    def close(self) -> None:
        """Close the files; what is there of an unfinished checkpoint goes."""
        self.saving.close()
        for listener in self._listeners:
            listener.close()
        self.chronicle.close()

    def _elapsed_s(self) -> float:
        """Seconds since this process began, after those of earlier parts of the run."""
        return self._began_elapsed_s + time.monotonic() - self._started_s
