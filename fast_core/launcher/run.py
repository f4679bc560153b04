"""Launching, resuming, validating: from a configuration, or a run, to an outcome."""

from __future__ import annotations

import errno
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import msgspec

from fast_core.config import RolloutConfig, RunConfig
from fast_core.config import file as config_file
from fast_core.errors import (
    CheckpointError,
    ConfigError,
    FastLoopError,
    RunFailed,
    SegmentError,
    TopologyError,
)
from fast_core.launcher.checkpoints.store import (
    check_identity,
    copy_newest,
    drop_abandoned,
    newest_valid,
)
from fast_core.launcher.lending import process_lent
from fast_core.launcher.lost_part import LostPart
from fast_core.launcher.next_part import come_back, lost_early, survives_early
from fast_core.launcher.outcome import Outcome
from fast_core.launcher.prepare import choosing_nothing_inline, identity
from fast_core.launcher.process_mode import ProcessMode, look, process_tree
from fast_core.launcher.processes.beginning import LostEarly
from fast_core.launcher.session import Continuation, Mode, Session, carry_out
from fast_core.launcher.shown.trace_and_crash import write_crash
from fast_core.launcher.shown.versions import write_versions
from fast_core.launcher.verdict import Verdict, judge
from fast_core.messages import Failed
from fast_core.monitor.bounded_logs import BoundedLogs
from fast_core.monitor.checkpoint_files import Manifest
from fast_core.monitor.crash import crash_report
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import RunLock
from fast_core.monitor.run_state import no_checkpoint
from fast_core.monitor.screen import make_progress
from fast_core.monitor.screens.access import check_page
from fast_core.monitor.view import RunSummary
from fast_core.policy.beginning import take_start
from fast_core.system.decoding import from_json
from fast_core.system.durable import write_durably
from fast_core.system.interrupts import Interrupted, Interrupts

# What a disk answers that takes nothing.
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
CHECKING_S = 3.0  # between lines about a checkpoint that takes long to read


class Checking:
    """What is called again and again while a checkpoint's files are read: it may be gigabytes."""

    def __init__(self, interrupts: Interrupts, progress: Progress) -> None:
        self._interrupts, self._progress = interrupts, progress
        self._told_s = time.monotonic()

    def __call__(self) -> None:
        """End it when a signal came; say what takes so long.

        Raises:
            Interrupted: A signal came.
        """
        self._interrupts.check()
        if time.monotonic() >= self._told_s + CHECKING_S:
            self._told_s = time.monotonic()
            text = "still reading the checkpoint, to see whether it is whole"
            self._progress.say(text, "INFO")


def launch(
    config: RunConfig,
    *,
    resume_from: Path | None = None,
    callbacks: Sequence[object] = (),
    environment: bytes | None = None,
    kept: bool = True,
) -> Outcome:
    """Train in a new run directory.

    Args:
        config: What to train.
        resume_from: A run whose newest checkpoint is the starting point.
        callbacks: Objects as `fast_core.callbacks` says, called after the configuration's.
        environment: What ``environment.pickled`` is to hold; where it lies by default.
        kept: Whether the caller leaves the directory of a run that has not failed.

    Raises:
        FastLoopError: The run could not be started.
    """
    _check_page(config)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress(sys.stdout)
        stack.callback(progress.close)
        continuation = None
        if resume_from is not None:
            source = RunDirectory.open(resume_from, no_checkpoint)
        run = RunDirectory.create(config.directory, config.name, datetime.now(), config.seed)
        try:
            stack.callback(_lock(run, progress).close)
        except ConfigError:  # the disk is full, say
            run.remove()
            raise
        config = _with_environment(config, run, environment)
        config = _with_start(config, run, resumes=resume_from is not None)
        if resume_from is not None:
            try:
                checkpoint, manifest = copy_newest(
                    source.checkpoints, run.checkpoints, Checking(interrupts, progress)
                )
                origin = source.checkpoints / checkpoint.name
                config = with_saved_steps(config, manifest)
                config = with_horizon_of(source, config)
                check_identity(manifest, identity(config), origin, "the configuration")
            except (CheckpointError, ConfigError):
                run.remove()
                raise
            except Interrupted as interrupt:
                run.remove()
                return _never_began(interrupt, progress, interrupts, None)
            continuation = Continuation(checkpoint, manifest, same_directory=False)
        session = Session(config, run, continuation, progress, interrupts, callbacks, kept=kept)
        return carry_through(session)


def _check_page(config: RunConfig) -> None:
    if config.dashboard.enabled:
        check_page(config.dashboard)


def _with_environment(config: RunConfig, run: RunDirectory, code: bytes | None) -> RunConfig:
    """Put an environment that is a Python object into the run, so that it stands by itself.

    Raises:
        ConfigError: It can't be read or written; nothing of the run is left.
    """
    given = config.environment.pickled
    if given is None:
        return config
    try:
        write_durably(run.environment, Path(given).read_bytes() if code is None else code)
    except OSError as error:
        run.remove()
        raise ConfigError(
            f"environment.pickled {given!r} can't be copied into the run: "
            f"{error.strerror or error}. It is written when Python code trains with a function or "
            "class as its environment, and lies beside the config.yaml of that run."
        ) from error
    return config_file.with_pickled(config, lambda _: str(run.environment))


def _with_start(config: RunConfig, run: RunDirectory, *, resumes: bool) -> RunConfig:
    """Put what the run begins from into it, so that it stands by itself.

    Raises:
        FastLoopError: It can't be read or written; nothing of the run is left.
    """
    named, loaded = config.policy.begins_from, config.policy.loaded
    if named is None and loaded is None:
        return config
    recorded = None if loaded is None or loaded.get("from") != named else loaded
    try:
        if resumes and named is not None and recorded is None:
            raise ConfigError(
                "policy.from is for a run that begins, --resume goes on from a checkpoint; leave "
                "one of them out."
            )
        if resumes or named is None:  # what the checkpoint's run began with, long ago
            named = taken = None
        else:
            taken = msgspec.to_builtins(take_start(named, recorded, run.start))
    except FastLoopError:
        run.remove()
        raise
    policy = msgspec.structs.replace(config.policy, begins_from=named, loaded=taken)
    return msgspec.structs.replace(config, policy=policy)


def resume(run: Path, overrides: list[str], *, callbacks: Sequence[object] = ()) -> Outcome:
    """Continue a run in its own directory from its newest complete checkpoint.

    Raises:
        FastLoopError: There is nothing to continue, or the overrides don't fit it.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress(sys.stdout)
        stack.callback(progress.close)
        found = RunDirectory.open(run, no_checkpoint)
        stack.callback(_lock(found, progress).close)
        config = load_run_config(found, overrides)
        _check_place(config, found)
        _check_page(config)
        config = with_horizon_of(found, config)
        drop_abandoned(found.checkpoints)
        try:
            path, manifest, notes = newest_valid(found.checkpoints, Checking(interrupts, progress))
        except Interrupted as interrupt:
            return _never_began(interrupt, progress, interrupts, found)
        for note in notes:
            progress.say(note)
        config = with_saved_steps(config, manifest)
        check_identity(manifest, identity(config), path, f"{str(found.config)!r} with overrides")
        continuation = Continuation(path, manifest, same_directory=True)
        if found.crash.exists():  # of an earlier part of the run
            found.crash.replace(found.crash.with_name("crash.previous.txt"))
        return carry_through(Session(config, found, continuation, progress, interrupts, callbacks))


def _check_place(config: RunConfig, run: RunDirectory) -> None:
    """Refuse another name or folder, which would change nothing but what the run is called."""
    before = load_run_config(run, [])
    for key in ("name", "directory"):
        if getattr(config, key) != getattr(before, key):
            new = shlex.join(["fastloop", "launch", str(run.config), "--resume", str(run.path)])
            raise ConfigError(
                f"{key} must stay {getattr(before, key)!r}: a resumed run goes on in its own "
                f"folder; got {getattr(config, key)!r}. For a new run that begins where this one "
                f"is, `{new} {key}=...`."
            )
    if config.policy.begins_from != before.policy.begins_from:
        wanted = shlex.quote(f"policy.from={config.policy.begins_from or 'null'}")
        raise ConfigError(
            f"policy.from must stay {before.policy.begins_from!r}: a resumed run goes on from its "
            "checkpoint. For a run that begins, "
            f"`fastloop launch {shlex.quote(str(run.config))} {wanted}`."
        )


def with_saved_steps(config: RunConfig, manifest: Manifest) -> RunConfig:
    """``rollout.steps: auto`` stands for what it stood for in the run that is continued."""
    saved = manifest.identity.get("rollout")
    if config.rollout.steps != "auto" or saved is None:
        return config
    steps = from_json(saved, RolloutConfig).steps
    rollout = msgspec.structs.replace(config.rollout, steps=steps)
    return msgspec.structs.replace(config, rollout=rollout)


def validate(config: RunConfig) -> int:
    """Come to the verdict that `launch` would come to, and leave nothing.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: The run could not be started.
    """
    with Interrupts() as interrupts:
        try:
            examine(config, interrupts)
        except Interrupted:
            return interrupts.exit_code
    return 0


def examine(config: RunConfig, interrupts: Interrupts) -> Verdict:
    """Come to the verdict that `launch` would come to, and leave nothing.

    Raises:
        FastLoopError: The run could not be started.
        Interrupted: A signal came.
    """
    _check_page(config)
    with ExitStack() as stack:
        run = RunDirectory.create(config.directory, config.name, datetime.now())
        stack.callback(run.remove)
        config = _with_start(config, run, resumes=False)
        tree = process_tree(config, run.logs / "fork-server.log", stack)
        return judge(config, lambda: look(tree, config, interrupts, runs=False), str(run.path))


def with_horizon_of(run: RunDirectory, config: RunConfig) -> RunConfig:
    """What continues ``run`` keeps its horizon unless it is told another.

    Runs of before have none of their own: their schedules followed ``stop.env_steps``.

    Raises:
        ConfigError: It would learn nothing, because a schedule ends before it does.
    """
    if config.horizon_env_steps is None:
        horizon = load_run_config(run, []).horizon
        config = msgspec.structs.replace(config, horizon_env_steps=horizon)
        config_file.validate(config)
    return config


def load_run_config(run: RunDirectory, overrides: list[str]) -> RunConfig:
    """The resolved configuration of a run, with overrides."""
    from fast_core.config.algorithms import algorithm_config_type

    run.look_where_it_began()
    return config_file.load(run.config, overrides, algorithm_config_type, resolved=True)


def _lock(run: RunDirectory, progress: Progress) -> RunLock:
    lock = run.lock()
    if lock.note:
        progress.say(lock.note)
    return lock


def carry_through(session: Session) -> Outcome:
    """Run it to its outcome, one part after the other while optimizers die and it comes back.

    Nothing is left of a run that could not begin.

    Raises:
        FastLoopError: It could not be started, or failed in FastLoop itself.
    """
    if session.conductor.follows is None:  # else it did choose, and chooses the same again
        config = choosing_nothing_inline(session.config)
        if config is not session.config:
            text = "scheduler.off_policy_degree -1 becomes 0: inline nothing happens side by side"
            session.progress.say(text, "INFO")
            session = replace(session, config=config)
    while True:
        ended = _part(session)
        if isinstance(ended, Outcome):
            return ended
        try:
            checking = Checking(session.interrupts, session.progress)
            session = come_back(session, ended, checking)
        except Interrupted as interrupt:
            return _never_began(
                interrupt, session.progress, session.interrupts, session.run, ended.reached
            )
        except CheckpointError as error:
            raise _given_up(session, ended, error) from error


def _part(session: Session) -> Outcome | LostPart:
    run, progress, interrupts = session.run, session.progress, session.interrupts
    lost = session.comebacks[-1].lost if session.comebacks else None
    try:
        with ExitStack() as stack:
            stack.enter_context(BoundedLogs(run.logs))
            return carry_out(session, _mode(session, stack), stack)
    except Interrupted as interrupt:
        if not run.config.exists():  # it was still being checked: there is nothing to look at
            run.remove()
            return _never_began(interrupt, progress, interrupts, None)
        reached = None if lost is None else lost.reached
        return _never_began(interrupt, progress, interrupts, run, reached)
    except (ConfigError, TopologyError, SegmentError) as error:
        if lost is not None:
            raise _given_up(session, lost, error) from error
        # Nothing has begun, so nothing is left of the attempt but the run it would have continued.
        if not session.continued:
            run.remove()
        raise
    except FastLoopError as error:
        interrupts.check_forced()
        if isinstance(error, LostEarly) and survives_early(session, error):
            return lost_early(session, error)
        if lost is not None:
            raise _given_up(session, lost, error) from error
        write_versions(run, datetime.now())
        write_crash(run, f"{error}\n", progress)
        raise RunFailed(str(error), run.path, "launcher", str(error), "") from error
    except OSError as error:
        if error.errno not in NOT_WRITTEN:
            raise
        refusal = ConfigError(
            f"the run can't be written in {str(run.path)!r}: {error.strerror}. Make room on that "
            "disk, or begin a run on another one with directory=..."
        )
        if lost is not None:
            raise _given_up(session, lost, refusal) from error
        if run.metrics.exists():  # something was trained
            raise RunFailed(str(refusal), run.path, "launcher", str(refusal), "") from error
        if not session.continued:
            run.remove()
        raise refusal from error


def _given_up(session: Session, lost: LostPart, error: FastLoopError) -> RunFailed:
    """The error for a run that could not come back: why not, and then the first cause."""
    run, cause = session.run, lost.cause
    why = Failed("launcher", "coming back", f"the run could not come back: {error}", "", {})
    report = crash_report(cause, [why], run_directory=str(run.path))
    write_crash(run, report, session.progress)
    return RunFailed(report, run.path, cause.node, cause.error, cause.traceback)


def _mode(session: Session, stack: ExitStack) -> Mode:
    if session.config.mode == "process":
        return ProcessMode(session, stack)
    stack.enter_context(process_lent())
    # here, because it imports environments and torch, which a launcher of processes doesn't
    from fast_core.launcher.inline import InlineMode

    return InlineMode(session, stack)


def _never_began(
    interrupt: Interrupted,
    progress: Progress,
    interrupts: Interrupts,
    run: RunDirectory | None,
    reached: RunSummary | None = None,
) -> Outcome:
    """The outcome of a run that was interrupted while it started, or came back."""
    text = f"{interrupt} before training {'began' if reached is None else 'went on'}"
    progress.say(text, "INFO")
    directory = None if run is None else run.path
    return Outcome("interrupted", text, directory, reached, signal=interrupts.signal)
