"""The scheduler's shell: feeds events to the pure core and carries out what it returns.

The same in process mode and inline; only the hub differs. It starts no process and never waits.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

from fast_core.distributed.channel import Hub
from fast_core.errors import CheckpointError, TransportError
from fast_core.events import (
    AbandonCheckpoint,
    CheckpointWritten,
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
    Requested,
    Respawn,
    Restoring,
    Retire,
    RolloutReady,
    Save,
    Saved,
    Scaled,
    ScaleRequested,
    Stop,
    Tell,
    Tick,
    Told,
    Trained,
)
from fast_core.launcher.calling.host import Host
from fast_core.launcher.calling.telling import Telling
from fast_core.launcher.checkpoints.committing import Committer
from fast_core.launcher.checkpoints.last_save import SavedSoFar
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.launcher.control.desk import Desk
from fast_core.launcher.control.messages import Status
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.prepare import identity, scheduler_settings
from fast_core.launcher.processes.interrupts import Interrupts
from fast_core.launcher.rerunning.recorder import Recorder
from fast_core.launcher.shown.metrics_rows import MetricsRows, evaluation_row
from fast_core.launcher.shown.node_status import node_status
from fast_core.launcher.shown.records import add_crash
from fast_core.launcher.shown.replay_figures import ReplayCounters
from fast_core.memory import StatsColumn, StatsRow
from fast_core.metrics import RunEnd
from fast_core.monitor.crash import survived_report
from fast_core.monitor.journal import EventJournal, Fact
from fast_core.monitor.log_lines import NodeLogs
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.view import EvaluationView, RunSummary
from fast_core.nodes.node import NodeState
from fast_core.policy.episodes import evaluation_figures
from fast_core.policy.file import best_policy_path, read_origin
from fast_core.run.checkpoint_files import complete_names
from fast_core.run.names import DASHBOARD, METRICS
from fast_core.run.plan import RunPlan
from fast_core.scheduler import CALLBACKS, LAUNCHER, Scheduler, SchedulerSettings, Send
from fast_core.scheduler.statistics import Statistics
from fast_core.screens.access import with_token
from fast_core.screens.served import Served, read_served
from fast_core.system.process_state import is_traced

# The scheduler's decisions that say that every node is ready.
BEGIN = ("start", "resume")
# Those that are told in words, too.
TOLD = ("not exact", "standstill", "node gone", "refused")
DEGREE = "degree"
# How long the news of a node's death may take from the kernel through the fork server.
EXIT_NEWS_S = 1.0


class Shell:
    """Everything about a running run that is not a process.

    Attributes:
        plan: The plan, with what a checkpoint has of changes.
        end: How the run ends, once that is decided.
        failures: Everything that went wrong, in order of arrival.
        evaluations: The last evaluation in each environment by name; None is that of training.
        bests: The best one, of earlier parts of the run too, likewise.
        absent: Nodes that may come while the run goes on and are not there.
        coming: Those that were started for it and are not ready.
        lost: Nodes that died and come back.
        optional: Nodes that the run goes on without.
        away: Those of them that are not ready.
        page: Where the page is served; None before it is.
        lives: How often each of them died so far.
        dying: Nodes whose end is known before their exit: when to help, and why.
        restoring: Since when env nodes step open episodes again, and how far they are.
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
        self._config_text, self._sources = config_text, sources
        self.run, self.hub, self.stats = run, hub, stats
        self.progress = progress
        self.end: EndRun | None = None
        self._recorder: Recorder | None = None
        self.failures: list[Failed | NodeExited] = []
        self.evaluations: dict[str | None, EvaluationView] = {}
        self.bests: dict[str | None, EvaluationView] = {}
        for name in (None, *plan.config.evaluation.environments):
            if (best := _best_on_file(run, name)) is not None:
                self.bests[name] = best
        self.lost: set[str] = set()
        self.absent = set(plan.names.absent)
        self.coming: set[str] = set()
        self.lives = dict(deaths)
        self.dying: dict[str, tuple[float, Failed]] = {}
        self.restoring: dict[str, tuple[float, Restoring]] = {}
        self.pids: dict[str, int] = {}
        self.started_s, self.began_elapsed_s = time.monotonic(), 0.0
        self._directory = ""
        self._quarantined = self._unsaved = 0
        self._unreachable: dict[str, tuple[float, NodeExited]] = {}
        self._respawns: list[Respawn] = []
        self._retired: list[str] = []
        self._store = CheckpointStore(
            run.checkpoints, keep=plan.config.checkpoint.keep, identity=identity(plan.config)
        )
        self._committer = Committer(self._store)
        report = self._report
        self._journal = EventJournal(
            run.events, clock=self._elapsed_s, wall=datetime.now, report=report
        )
        self._logs = NodeLogs(run, wall=datetime.now, report=report)
        checkpoint = None if plan.checkpoint is None else Path(plan.checkpoint)
        self._desk = desk or Desk(plan.config.checkpoint, Interrupts())
        self._env_steps_per_s = 0.0
        self._telling = Telling(callbacks, run, plan.config.supervision, checkpoint)
        settings = scheduler_settings(
            plan, str(run.checkpoints), came_back=came_back, deaths=deaths
        )
        settings = self._settle(settings)
        self.optional = frozenset(settings.optional)
        self.away = set(settings.optional)
        self.page: Served | None = None
        evaluator = () if settings.evaluator is None else (settings.evaluator,)
        self._awaited = (*settings.working_nodes, *plan.names.policy, *evaluator)
        self._scheduler = Scheduler(settings, scheduler_state)
        begun = self._scheduler.statistics()
        self.plan = replace(plan, changed=begun.changed)
        self.began_env_steps, self.began_updates = begun.env_steps_trained, begun.updates
        self.began_elapsed_s = begun.elapsed_s
        counters = ReplayCounters(plan, stats) if plan.replays else None
        self._rows = MetricsRows(plan.config.metrics.interval_s, begun, counters)
        self.take(Tick())
        self._recorder = self._record(settings) if plan.config.diagnostics.schedule else None

    def _settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """The scheduler's settings, with what it must wait for."""
        return self._telling.settle(settings)

    def _record(self, settings: SchedulerSettings) -> Recorder | None:
        """What writes down the schedule from now on, on the scheduler's clock."""
        text, now_s = self._config_text, self._now_s()
        return Recorder(self.plan, text, self.stats, settings, now_s, self._report)

    def _now_s(self) -> float:
        """The scheduler's time."""
        return time.monotonic()

    @property
    def evaluation(self) -> EvaluationView | None:
        """The last evaluation in the environment of training."""
        return self.evaluations.get(None)

    @property
    def best(self) -> EvaluationView | None:
        """The best one there."""
        return self.bests.get(None)

    # --- events --------------------------------------------------------------------------------

    def receive(self, ready: Sequence[int] | None = None) -> bool:
        """Take all that hub, callbacks and a commit have come to; True if there was anything.

        ``ready`` are the sources that have something (`filenos`), None for any; the hub is asked
        whatever they are.
        """
        events: list[Event | LauncherEvent] = [*self.hub.receive()]
        if ready is None or ready:
            events += self._telling.take()
        if ready is None or not set(self._desk.filenos()).isdisjoint(ready):
            events += self._requests()
        for event in events:
            self.take(event)
        return (ready != [] and self._take_commit()) or bool(events)

    def _requests(self) -> list[Requested | ScaleRequested]:
        return self._desk.take(self._status, lambda: self._scheduler.statistics().checkpoint)

    def _status(self) -> Status:
        now = self._scheduler.statistics(time.monotonic())
        return Status(
            phase=now.phase,
            env_steps=now.env_steps_trained,
            env_steps_per_s=self._env_steps_per_s,
            degree=now.degree,
            elapsed_s=now.elapsed_s,
            env_nodes=now.env_nodes,
            updates=now.updates,
            nodes=tuple(
                node_status(name, self.state_of(name), row, self.lives.get(name, 0) + 1)
                for name, row in self.stats.items()
                if name not in self.absent
            ),
        )

    def state_of(self, name: str) -> str:
        """What a node does, in a word."""
        if name in self.lost:
            return "dead"
        if name in self.away:
            return "away"
        return NodeState(self.stats[name].words[StatsColumn.STATE]).name.lower()

    def _take_commit(self) -> bool:
        try:
            written = self._committer.take()
        except CheckpointError as error:
            text = f"{type(error).__name__}: {error}"
            self.take(Failed("launcher", "writing a checkpoint", text, traceback.format_exc(), {}))
            return True
        if written is None:
            return False
        if not written.error:
            self._directory, self._unsaved = "", 0
        self.take(written)
        return True

    def saved(self) -> SavedSoFar:
        """How far the checkpoint is that is being written."""
        nbytes = 0
        if self._directory:
            with contextlib.suppress(OSError), os.scandir(self._directory) as files:
                nbytes = sum(file.stat().st_size for file in files)
        return SavedSoFar(nbytes, self._committer.pieces, self._committer.busy)

    def filenos(self) -> tuple[int, ...]:
        """One is readable once a commit is over, callbacks answer or somebody asks: `receive`."""
        others = [each.fileno() for each in (self._telling.host,) if each is not None]
        return (self._committer.fileno(), *others, *self._desk.filenos())

    def await_others(self, timeout_s: float) -> bool:
        """Wait for a commit or for callbacks, whose threads work; False if neither does."""
        host = self._telling.host
        if not self._committer.busy and (host is None or not host.busy):
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
        self._carry_out(self._scheduler.handle(event, now_s))
        if kind is Trained:
            self._write_metrics(now_s)
        elif kind is not RolloutReady:
            self._answer(event)

    def _progressed(self, event: Event | LauncherEvent) -> None:
        """Count what is shown of collecting and training."""
        if isinstance(event, RolloutReady):
            if event.quarantined:
                self._count_quarantined(event.node, event.quarantined)
        elif isinstance(event, Trained):
            self._rows.trained(event)
            if event.digest:
                facts: dict[str, Fact] = {"version": event.version, "digest": event.digest}
                self._journal.write("digest", f"ticket {event.ticket}", facts)

    def _hear(self, event: Event | LauncherEvent, now_s: float) -> bool:
        """Take note of an event; True if it is none of the scheduler's, or not yet."""
        match event:
            case LogLine():
                self._logs.write(event)
                self.progress.log(event)
                return True
            case Figures():
                self._rows.figures(event)
                return True
            case Restoring(node):
                since_s, _ = self.restoring.get(node, (now_s, event))
                self.restoring[node] = since_s, event
            case Ready():
                self._ready(event)
            case Evaluated():
                self._evaluated(event)
            case Told():
                self._telling.hear(event)
            case Failed(node) | NodeExited(node) if self._scheduler.spares(event):
                self._leave(node)
            case NodeExited() if self._scheduler.survives(event):
                if event.reaped:
                    self._bury(event)
            case Failed(node) if node in self.optional and self.plan.config.mode == "inline":
                self._drop(event)
            case Failed(node) if self._is_death(event):
                grace_s = self.plan.config.supervision.grace_s
                self.dying.setdefault(node, (now_s + grace_s, event))
                return True
            case Failed() | NodeExited():
                self._failed(event)
        return False

    def _answer(self, event: Event | LauncherEvent) -> None:
        """Tell who asked at the desk what comes of it."""
        match event:
            case CheckpointWritten():
                self._desk.written(event)
            case ScaleRequested(number):
                self._desk.scales(number)
            case Requested() if not self._scheduler.saving:
                names = complete_names(self.run.checkpoints)
                self._desk.nothing_to_save(self.run.checkpoints / names[-1] if names else None)

    def _ready(self, event: Ready) -> None:
        node = event.node
        self.pids[node] = event.pid
        if node in self.lost:
            self.lost.discard(node)
            if self.end is None:
                self._report(f"{node} is back", "INFO")
        self.coming.discard(node)
        self.away.discard(node)
        if node == DASHBOARD and (served := read_served(self.run.dashboard)):
            self.page = served
            self._journal.write("page", f"served at {served.url}", {"url": served.url})
            if self.plan.config.mode == "inline":  # where no log of a node is shown
                self._report(f"the page of this run: {with_token(served.url)}", "INFO")

    def _is_death(self, event: Failed) -> bool:
        """Whether what a node raised only ends the node, which comes back."""
        config = self.plan.config
        if event.node in self.optional:
            return self.end is None
        restarts = config.mode == "process" and config.supervision.restarts.on_error == "restart"
        if not restarts or event.refused or self.end is not None:
            return False
        return self.survives(NodeExited(event.node, event.error, reaped=True))

    def _bury(self, event: NodeExited) -> None:
        """Let nothing of a dead node reach the one that comes back."""
        node = event.node
        self._unreachable.pop(node, None)
        if node in self.optional:  # the scheduler says what follows
            self.away.add(node)
            self.pids.pop(node, None)
        else:
            self.lost.add(node)
            self._report(f"{node} is gone: {event.cause}; it is started anew")
        life = self.lives[node] = self.lives.get(node, 0) + 1
        if event.report is not None:
            where, again = str(self.run.path), node not in self.optional
            text = survived_report(event.report, incarnation=life, run_directory=where, again=again)
            add_crash(self.run, text, self.progress)

    def _drop(self, event: Failed) -> None:
        """Go on without a node that failed in this process."""
        self.away.add(event.node)
        text = survived_report(event, incarnation=1, run_directory=str(self.run.path), again=False)
        add_crash(self.run, text, self.progress)

    def _failed(self, event: Failed | NodeExited) -> None:
        """Keep it; a node that reported its failure and then exits is one failure, not two."""
        if isinstance(event, NodeExited) and (not event.cause or self.has_failed(event.node)):
            return
        report = event.report if isinstance(event, NodeExited) else None
        self.failures.append(report or event)
        if self.end is None:
            return
        if event.node == CALLBACKS and isinstance(event, Failed):
            self._callbacks_failed_late(self.end, event)
        else:
            text = event.error if isinstance(event, Failed) else event.cause
            self._report(f"{event.node} failed while the run ended: {text}")

    def _callbacks_failed_late(self, end: EndRun, failed: Failed) -> None:
        """A run that had finished has failed, whoever hears of it; no other end is covered up."""
        text = f"{failed.node} failed while {failed.doing}: {failed.error}"
        if end.reason == "finished":
            self.end = EndRun("failed", text, failed)
        else:
            self._report(f"{failed.traceback}{text}")

    def _leave(self, node: str) -> None:
        self.absent.add(node)
        self.coming.discard(node)
        self.pids.pop(node, None)
        self._unreachable.pop(node, None)

    def survives(self, event: NodeExited) -> bool:
        """Whether the run would go on after this death."""
        return self._scheduler.survives(event) or self._scheduler.spares(event)

    @property
    def has_orders(self) -> bool:
        """Whether there are nodes to start or to watch the end of: the two that follow."""
        return bool(self._respawns or self._retired)

    def take_retired(self) -> list[str]:
        """Nodes that were told to stop while the run goes on and were not taken yet."""
        retired, self._retired = self._retired, []
        return retired

    def take_respawns(self) -> list[Respawn]:
        """Nodes to start anew that were not taken yet."""
        respawns, self._respawns = self._respawns, []
        return respawns

    def has_failed(self, node: str) -> bool:
        """Whether this node's failure is known already."""
        return any(failure.node == node for failure in self.failures)

    def _count_quarantined(self, node: str, count: int) -> None:
        """Say it at the first one, then ten times more rarely each time."""
        before, self._quarantined = self._quarantined, self._quarantined + count
        if _more_digits(before, self._quarantined):
            self._report(
                f"{node}: the environment gave NaN or infinite values; {self._quarantined} "
                "episodes were cut so far. environment.nonfinite=fail shows where"
            )

    def _evaluated(self, event: Evaluated) -> None:
        for name, played in event.played.items():
            figures = evaluation_figures(played.returns, played.lengths)
            mean, std = figures.get("return_mean", math.nan), figures.get("return_std", math.nan)
            quarantined = figures["quarantined_share"]
            view = EvaluationView(mean, std, event.version, event.env_steps, quarantined)
            self.evaluations[name] = view
            if not quarantined and (name not in self.bests or mean >= self.bests[name].mean):
                self.bests[name] = view
        best = self.bests.get(None)
        self._telling.evaluated(event, best=best is self.evaluations[None])
        self._send(METRICS, evaluation_row(event, self._scheduler.statistics().elapsed_s))

    # --- commands ------------------------------------------------------------------------------

    def _carry_out(self, sends: list[Send]) -> None:
        for node, command in sends:
            if node == LAUNCHER:
                self._obey(command)
            elif isinstance(command, Save) and (error := self._prepare(command)):
                self.take(Saved(node, command.checkpoint, (), error))
            elif node == CALLBACKS:
                assert isinstance(command, Save)
                self._telling.save(command)
            else:
                self._send(node, cast("Command", command))

    def _obey(self, command: Command | LauncherCommand) -> None:
        match command:
            case Respawn(node):
                if node in self.absent:
                    self.absent.discard(node)
                    self.coming.add(node)
                self._respawns.append(command)
            case Retire(name):
                self._leave(name)
                self._retired.append(name)
                self._send(name, Stop("finished"))
            case Scaled():
                self._desk.scaled(command)
            case Tell(moment):
                self._telling.tell(moment, self._scheduler.statistics())
            case CommitCheckpoint():
                self._telling.committing(command, self._directory)
                self._committer.begin(command, self._directory)
                self._desk.committing(self._directory)
            case AbandonCheckpoint(number, error):
                self._abandon(error)
                self._desk.abandoned(number, error)
            case Decision(what, why):
                self._decided(what, why)
            case EndRun():
                self.end = command
                self._desk.ended(command.text)

    def _decided(self, what: str, why: str) -> None:
        self._journal.write(what, why)
        if what in BEGIN:
            self._write_config()
            self._tell_changed_sources()
        elif what in TOLD:
            self._report(why)
        elif what == DEGREE:
            self.progress.log(LogLine("launcher", "INFO", f"off-policy degree {why}"))

    def _tell_changed_sources(self) -> None:
        changed = self._sources.changed() if self._sources is not None else ()
        if changed:
            self._report(
                f"{', '.join(changed)} changed while the run started: its processes may execute "
                "different code, differ, or wait for each other for ever. Start it again"
            )

    def _send(self, node: str, command: Command) -> None:
        try:
            self.hub.send(node, command)
        except TransportError as error:
            # Most likely it died a moment ago, and the news of how is still on its way.
            gone = (time.monotonic() + EXIT_NEWS_S, NodeExited(node, str(error)))
            self._unreachable.setdefault(node, gone)

    def _prepare(self, command: Save) -> str:
        """Make the directory of a checkpoint if it is not there; returns why it can't be."""
        if self._directory != command.directory:
            try:
                self._store.prepare(command.directory)
            except OSError as error:
                return str(error)
            self._directory = command.directory
        return ""

    def _abandon(self, error: str) -> None:
        """A full disk costs a checkpoint, not the run: say so, and ever more rarely again."""
        self._remove_partial()
        self._unsaved += 1
        if _more_digits(self._unsaved - 1, self._unsaved):
            count = "" if self._unsaved == 1 else f", {self._unsaved} in a row"
            self._report(
                f"a checkpoint could not be written{count}: {error}; those before it are kept, "
                "training goes on, and the next one is tried when it is due"
            )

    def _remove_partial(self) -> None:
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = ""

    def _write_config(self) -> None:
        try:
            self.run.write_config(self._config_text)
        except OSError as error:
            self._report(f"can't write {self.run.config}: {error}; it stays as it was")

    def _write_metrics(self, now_s: float, *, force: bool = False) -> None:
        record = self._rows.due(now_s, self._scheduler.statistics, force=force)
        if record is not None:
            self._send(METRICS, record)
            self._telling.metrics(record)
            self._env_steps_per_s = record.values.get("time/env_steps_per_s", 0.0)

    # --- for the loops -------------------------------------------------------------------------

    def tick_if_due(self) -> None:
        """Give the scheduler the time when it wants it, and end a run whose callback hangs."""
        if self.end is None and (late := self._telling.overdue()) is not None:
            self.take(late)
        wakeup_s = self._scheduler.next_wakeup_s()
        if wakeup_s is not None and time.monotonic() >= wakeup_s:
            self.take(Tick(self._idle_since_s()))

    def _idle_since_s(self) -> float | None:
        """Since when none of those that the scheduler waits for has been at work."""
        host = self._telling.host
        if self.lost or (host is not None and host.busy):  # a callback has a limit of its own
            return None
        if any(map(is_traced, self.pids.values())):
            return None
        since_ns = 0
        for name in (*self._awaited, *self.plan.names.absent):
            if name in self.absent:
                continue
            words = self.stats[name].words
            if words[StatsColumn.STATE] != NodeState.WAITING:
                return None
            since_ns = max(since_ns, words[StatsColumn.STATE_SINCE_NS])
        return since_ns / 1e9

    def owed(self) -> str:
        """What nodes have not done yet, and who."""
        return self._scheduler.owed()

    def overdue(self) -> list[str]:
        """Nodes that are not ready although they had to be by now."""
        needed = [name for name in self.plan.names.all if name not in self.optional]
        if all(name in self.pids for name in needed):
            return []
        due_s = self._scheduler.next_wakeup_s()
        if not due_s or time.monotonic() < due_s or self.end is not None:
            return []
        return [name for name in needed if name not in self.pids]

    def give_up_unreachable(self) -> None:
        """Report nodes that took no message and of whose death nothing was heard since."""
        for deadline_s, event in list(self._unreachable.values()):
            if time.monotonic() >= deadline_s:
                del self._unreachable[event.node]
                self.take(event)

    def next_wakeup_s(self) -> float | None:
        """When the scheduler wants the time, on the monotonic clock."""
        return self._scheduler.next_wakeup_s()

    def statistics(self, now_s: float | None = None) -> Statistics:
        """A reading of the scheduler, at ``now_s`` or else at the time of its last event."""
        return self._scheduler.statistics(now_s)

    def executors(self) -> tuple[str, ...]:
        """The node that executes each shard now, by shard."""
        return self._scheduler.executors()

    def stop_nodes(self, nodes: Sequence[str]) -> list[str]:
        """Write the last row of metrics and tell these nodes to stop; see `tell_stop`."""
        self._write_metrics(time.monotonic(), force=True)
        if self.end is not None:
            self._send(METRICS, Finish(self._run_end(self.end)))
        return self.tell_stop(nodes)

    def _run_end(self, end: EndRun) -> RunEnd:
        now = self._scheduler.statistics()
        return RunEnd(
            outcome="interrupted" if end.again else end.reason,
            text=f"{end.text}; it comes back" if end.again else end.text,
            env_steps=now.env_steps_trained,
            updates=now.updates,
            elapsed_s=now.elapsed_s,
            best_return=None if self.best is None else self.best.mean,
            last_return=None if self.evaluation is None else self.evaluation.mean,
        )

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
        faults, left = self._telling.end(self.end, self._scheduler.statistics(), hurry)
        if left and not faults:
            self._report(f"{left} has not returned, and is not waited for")
        for failed in faults:
            self.take(failed)

    def rest_callbacks(self, hurry: Callable[[], bool]) -> bool:
        """Wait until callbacks know of all that has happened; False if one fails or hangs."""
        return self._telling.rest(hurry)

    def decide(self, what: str, why: str, facts: Mapping[str, Fact] | None = None) -> None:
        """Add a line of the launcher's own to the journal."""
        self._journal.write(what, why, facts)

    def write_summary(self, summary: RunSummary) -> None:
        """Add how the run ended to the journal, for the report."""
        self._journal.summarise(summary)

    def close(self) -> None:
        """Close the files; what is there of an unfinished checkpoint goes."""
        self._committer.close()
        self._remove_partial()
        if self._recorder is not None:
            self._recorder.close()
        self._logs.close()
        self._journal.close()
        with contextlib.suppress(OSError):  # of a page that had no time to do so
            self.run.dashboard.unlink(missing_ok=True)

    def _elapsed_s(self) -> float:
        """Seconds since this process began, after those of earlier parts of the run."""
        return self.began_elapsed_s + time.monotonic() - self.started_s

    def _report(self, text: str, level: str = "WARNING") -> None:
        self.progress.log(LogLine("launcher", level, text))


def _more_digits(before: int, now: int) -> bool:
    """Whether it is time to say a count again: at the first, then ten times more rarely."""
    return before == 0 or len(str(before)) < len(str(now))


def _best_on_file(run: RunDirectory, environment: str | None = None) -> EvaluationView | None:
    path = best_policy_path(run.path, environment)
    try:
        best = read_origin(path) if path.exists() else None
    except CheckpointError:
        return None
    if best is None:
        return None
    return EvaluationView(best.mean_return, best.std_return, best.version, best.env_steps)
