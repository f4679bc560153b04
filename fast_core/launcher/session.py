"""One run from a configuration to its outcome: the same sequence whatever its nodes live in.

`processes` and `inline` are the two modes. The order matters for start-up time: in process mode
nodes start first and import while the configuration is being checked and memory is being laid out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.errors import ConfigError
from fast_core.launcher.calling.host import Host, read_callbacks
from fast_core.launcher.calling.telling import Telling
from fast_core.launcher.checkpoints.disk_room import checkpoints_bytes
from fast_core.launcher.checkpoints.store import SCHEDULER_FILE
from fast_core.launcher.conductor import Conductor
from fast_core.launcher.control.desk import Desk
from fast_core.launcher.control.opening import listen
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.listener import Listener
from fast_core.launcher.lost_part import Comeback, LostPart
from fast_core.launcher.outcome import Outcome
from fast_core.launcher.rerunning.recorder import Recorder
from fast_core.launcher.shell import Shell
from fast_core.launcher.shown.display import Display
from fast_core.launcher.shown.scores import Scores
from fast_core.launcher.shown.trace_and_crash import TraceDrain, write_crash, write_records
from fast_core.launcher.shown.versions import write_versions
from fast_core.launcher.sizing.placement import Choice
from fast_core.launcher.verdict import Findings, Verdict, judge, remarks
from fast_core.messages.channel import Hub
from fast_core.monitor.checkpoint_files import Manifest
from fast_core.monitor.crash import crash_report
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served
from fast_core.monitor.view import RunSummary
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system import remains
from fast_core.system.interrupts import Interrupts

SLOW_LOOK_S = 3.0  # after which it is said what a start waits for


@dataclass(frozen=True)
class Continuation:
    """Where a run goes on from.

    Attributes:
        checkpoint: Directory of the checkpoint.
        manifest: Its table of contents.
        same_directory: Whether the run directory of the checkpoint is continued.
    """

    checkpoint: Path
    manifest: Manifest
    same_directory: bool


@dataclass(frozen=True)
class Session:
    """What a run has before its environment is known.

    Attributes:
        config: What to train.
        run: Where everything of it lies.
        continuation: Where it goes on from, None for a new run.
        progress: The screen.
        interrupts: Signals that ask it to end.
        callbacks: What is told of it, beside those of the configuration.
        comebacks: What its part after each part that was lost goes on from.
        conductor: What gives it time and turn.
        kept: Whether its directory is left when it has ended; one that failed is, in any case.
        places: The host of each node that is to be on another one than this; no key offers it yet.
    """

    config: RunConfig
    run: RunDirectory
    continuation: Continuation | None
    progress: Progress
    interrupts: Interrupts
    callbacks: Sequence[object] = ()
    comebacks: tuple[Comeback, ...] = ()
    conductor: Conductor = field(default_factory=Conductor)
    kept: bool = True
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def continued(self) -> bool:
        """Whether an earlier part of the run lies in its directory."""
        if self.comebacks:
            return True
        return self.continuation is not None and self.continuation.same_directory

    @property
    def came_back(self) -> int:
        """How often it did, in this call, after the death of an optimizer."""
        return sum(each.lost.kind == "optimizer" for each in self.comebacks)


class Nodes(Protocol):
    """The nodes of a run, whatever they live in."""

    def start(self) -> None:
        """Let every node begin."""
        ...

    def run(self) -> None:
        """Go on until the scheduler ends the run, and stop every node."""
        ...


class Mode(Protocol):
    """What differs between processes and one process; made for one session.

    Attributes:
        folder: The run's private folder.
        sources: The files that nodes import while they start; None where that is over.
    """

    folder: Path
    sources: Sources | None

    def look(self) -> Findings:
        """Find out what the environment looks like."""
        ...

    def prepare(self, plan: RunPlan) -> None:
        """Do what may begin before there is memory."""
        ...

    def hub(self, plan: RunPlan, memory: RunMemory) -> Hub:
        """What carries messages between scheduler and nodes."""
        ...

    def nodes(
        self,
        plan: RunPlan,
        memory: RunMemory,
        shell: Shell,
        refresh: Callable[[], float],
    ) -> Nodes:
        """The nodes; ``refresh`` draws the display and returns when it wants to be called again."""
        ...


def carry_out(session: Session, mode: Mode, stack: ExitStack) -> Outcome | LostPart:
    """Run it; ``stack`` closes what is opened.

    Returns:
        How it ended, or what is left where it is to come back.

    Raises:
        FastLoopError: The run could not be started.
        Interrupted: A signal came before it began.
    """
    run, interrupts, progress = session.run, session.interrupts, session.progress
    if session.conductor.follows is None:  # nobody can ask one that follows a record
        remains.name_run(str(mode.folder), str(run.path.resolve()))
    verdict = _verdict(session, mode.look)
    follows, places = session.conductor.follows, session.places
    plan = replace(verdict.plan, kept=session.kept, follows=follows, places=places)
    callbacks = _callbacks(session, plan, stack)
    mode.prepare(plan)
    interrupts.check()
    desk = _desk(session, mode.folder, stack)
    memory = RunMemory.create(plan, interrupts.check)
    stack.callback(memory.close)
    hub = mode.hub(plan, memory)
    stack.callback(hub.close)
    scores = Scores(run, tuple(plan.config.evaluation.environments))
    telling = None if callbacks is None else Telling(callbacks, run, plan, scores)
    recorder = _recorder(session, plan)
    listeners = [each for each in (telling, recorder, desk) if each is not None]
    shell = _shell(session, plan, hub, memory, mode.sources, listeners, scores)
    stack.callback(shell.close)
    _tell_comeback(shell, session)
    _tell(shell, verdict)
    trace = TraceDrain(plan, memory)
    known = shell.plan, shell.scheduler, shell.roster, scores, shell.now
    display = Display(*known, progress, trace)
    nodes = mode.nodes(shell.plan, memory, shell, display.refresh)
    nodes.start()
    write_versions(run, datetime.now())  # while the nodes get ready
    nodes.run()
    before = interrupts.count

    def hurry() -> bool:
        return interrupts.count > before

    assert shell.end is not None
    if shell.end.again and (telling is None or telling.rest(hurry)):
        assert shell.end.cause is not None
        report = _report(shell, session)
        config = _at_its_port(plan.config, shell.page)
        summary = _with_comebacks(display.summary(shell.end), session)
        kind = plan.roles[shell.end.cause.node].counted_as
        return LostPart(config, shell.end.cause, kind, report, summary, callbacks, shell.page)
    if telling is not None:
        _end_callbacks(shell, telling, hurry)
    return _finish(shell, session, display, trace, callbacks)


def _end_callbacks(shell: Shell, telling: Telling, hurry: Callable[[], bool]) -> None:
    """Tell callbacks of the end."""
    assert shell.end is not None
    faults, left = telling.end(shell.end, hurry)
    if left and not faults:
        shell.chronicle.report(f"{left} has not returned, and is not waited for")
    for failed in faults:
        shell.take(failed)


def _at_its_port(config: RunConfig, page: Served | None) -> RunConfig:
    """With the page where browsers look for it, if it is served."""
    if page is None:
        return config
    return msgspec.structs.replace(
        config, dashboard=msgspec.structs.replace(config.dashboard, port=page.port)
    )


def _verdict(session: Session, look: Callable[[], Findings]) -> Verdict:
    continuation, run = session.continuation, session.run
    before = None
    if session.continued:
        before = continuation.manifest.env_steps if continuation else 0
    verdict = judge(
        session.config,
        lambda: _told_if_slow(session, look),
        str(run.path),
        checkpoint=str(continuation.checkpoint) if continuation is not None else None,
        continued_env_steps=before,
        kept_bytes=checkpoints_bytes(run.checkpoints),
    )
    if not run.config.exists():  # a new run keeps it even if it never begins; else see Shell
        run.write_config(config_file.dumps(verdict.plan.config))
    return verdict


def _told_if_slow(session: Session, look: Callable[[], Findings]) -> Findings:
    """What ``look`` finds; a person is told of it where it takes a while."""
    config = session.config
    text = (
        f"still looking at environment {config.environment.id!r}: it is made, reset and stepped "
        f"before anything else, for {config.supervision.start_timeout_s:g} s at most "
        "(supervision.start_timeout_s)"
    )
    if config.policy.placement == "auto":
        text += ", and both placements of its policy are tried (policy.placement: auto)"
    waiting = threading.Timer(SLOW_LOOK_S, session.progress.say, (text, "INFO"))
    waiting.daemon = True
    waiting.start()
    try:
        return look()
    finally:
        waiting.cancel()
        waiting.join()


def _callbacks(session: Session, plan: RunPlan, stack: ExitStack) -> Host | None:
    """The user's callbacks, None without any.

    Raises:
        ConfigError: One is none, or can't be made.
        Interrupted: A signal came meanwhile.
    """
    host, lost = None, tuple[str, ...]()
    checkpoint = session.continuation.checkpoint if session.continuation else None
    if plan.config.callbacks or session.callbacks:
        earlier = session.comebacks[-1].lost.callbacks if session.comebacks else None
        host = Host(plan.config, session.callbacks, session.run.path, earlier)
        stack.callback(host.close)
        lost = host.begin(checkpoint, session.interrupts)
    elif checkpoint is not None and session.conductor.follows is None:
        lost = tuple(each.name for each in read_callbacks(checkpoint).callbacks)
    if lost:
        text = (
            f"this goes on without {', '.join(lost)}, which the run of the checkpoint had; pass "
            "the callback again, or name it in `callbacks`"
        )
        session.progress.say(text)
    return host


def _recorder(session: Session, plan: RunPlan) -> Recorder | None:
    """What writes the schedule down, where that is wanted and does not stand in a record."""
    if session.conductor.follows is not None or not plan.config.diagnostics.schedule:
        return None
    return Recorder(plan, config_file.dumps(plan.config), session.progress.say)


def _desk(session: Session, folder: Path, stack: ExitStack) -> Desk | None:
    """Where others may ask; with a warning where nobody can."""
    if session.conductor.follows is not None:  # what comes from outside is in its record
        return None
    try:
        server = listen(folder, session.run, stack)
    except OSError as error:
        text = f"no socket in {folder}, so nobody can stop or save this run by a command: {error}"
        session.progress.say(text)
        return None
    checkpoints = session.run.checkpoints
    return Desk(session.config.checkpoint, checkpoints, session.interrupts, server)


def _shell(
    session: Session,
    plan: RunPlan,
    hub: Hub,
    memory: RunMemory,
    sources: Sources | None,
    listeners: Sequence[Listener],
    scores: Scores,
) -> Shell:
    continuation, conductor = session.continuation, session.conductor
    conductor.begin(plan, memory)
    return Shell(
        plan,
        session.run,
        hub,
        memory.all_stats(),
        session.progress,
        (continuation.checkpoint / SCHEDULER_FILE).read_bytes() if continuation else None,
        config_file.dumps(plan.config),
        sources,
        listeners,
        conductor,
        scores,
        session.came_back,
        session.comebacks[-1].lost.deaths if session.comebacks else {},
    )


def _tell_comeback(shell: Shell, session: Session) -> None:
    """Write down what this part goes on from, where it does after a death."""
    if session.comebacks:
        last = session.comebacks[-1]
        facts = {"from_env_steps": last.lost.reached.env_steps, "to_env_steps": last.env_steps}
        shell.chronicle.decide("come back", last.text, facts)


def _tell(shell: Shell, verdict: Verdict) -> None:
    """Write down who got how many threads and why, and warn of what is not as it should be."""
    divided, found = verdict.divided, verdict.found
    shell.chronicle.decide("cores", " ".join(divided.reasons))
    warnings = [*divided.warnings, *remarks(verdict.plan)]
    if found.environment.cast:
        warnings.append(
            f"environment {found.environment.id!r} gives {found.environment.cast} that its "
            "observation space declares; they are cast. Return what it declares to save the time"
        )
    for warning in warnings:
        shell.progress.say(warning)
    if found.placed is not None:
        _tell_placement(shell, found.placed)


def _tell_placement(shell: Shell, placed: Choice | str) -> None:
    """Write down what ``policy.placement: auto`` chose and why."""
    if isinstance(placed, Choice):
        shell.chronicle.decide("placement", placed.why)
        shell.progress.say(f"policy.placement {placed.why}", "INFO")
    else:
        text = f"env, because it could not be measured: {placed}"
        shell.chronicle.decide("placement", text)
        shell.progress.say(f"policy.placement {text}")


def _finish(
    shell: Shell, session: Session, display: Display, trace: TraceDrain, callbacks: Host | None
) -> Outcome:
    """Say and write how it ended."""
    end, run, progress, interrupts = shell.end, shell.run, session.progress, session.interrupts
    assert end is not None
    report, origin = "", None
    if end.reason == "failed":
        assert end.cause is not None
        if end.cause.refused and not session.comebacks:
            raise ConfigError(end.cause.error)
        report = _report(shell, session)
        write_crash(run, report, progress)
        if callbacks is not None:
            origin = callbacks.origin(end.cause)
    summary = _with_comebacks(display.summary(end), session)
    shell.chronicle.summarise(summary)
    write_records(run, trace, progress)
    there = summary.run_directory and run.report.exists()
    summary = replace(summary, report=str(run.report) if there else "")
    progress.finish(summary)
    how = end.reason, end.text, run.path, summary, interrupts.signal
    return Outcome(*how, end.cause, report, origin)


def _report(shell: Shell, session: Session) -> str:
    """What failed, for people."""
    assert shell.end is not None and shell.end.cause is not None
    cause, run = shell.end.cause, shell.run
    later = [failure for failure in shell.failures.kept if failure.node != cause.node]
    life = session.came_back + shell.roster.lives.get(cause.node, 0) + 1
    return crash_report(cause, later, incarnation=life, run_directory=str(run.path))


def _with_comebacks(summary: RunSummary, session: Session) -> RunSummary:
    comebacks, often = session.comebacks, session.came_back
    redone = sum(each.redone for each in comebacks)
    back = summary.nodes_back + (comebacks[-1].lost.nodes_back if comebacks else 0)
    return replace(summary, comebacks=often, redone_env_steps=redone, nodes_back=back)
