"""Launching, resuming: from a configuration to an exit status.

The order matters for start-up time: the processes start first and import while the configuration
is being checked and memory is being laid out here.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from fast_core.config import RolloutConfig, RunConfig
from fast_core.config import file as config_file
from fast_core.distributed.channel import Hub
from fast_core.distributed.inproc import InprocHub
from fast_core.distributed.zmq_channel import ZmqHub
from fast_core.errors import (
    CheckpointError,
    ConfigError,
    FastLoopError,
    SegmentError,
    TopologyError,
)
from fast_core.events import Failed, LogLine
from fast_core.launcher.checkpoints.disk_room import checkpoints_bytes
from fast_core.launcher.checkpoints.store import (
    SCHEDULER_FILE,
    Manifest,
    check_identity,
    copy_newest,
    drop_abandoned,
    newest_valid,
)
from fast_core.launcher.failures.blame import blaming
from fast_core.launcher.failures.limits import Limits
from fast_core.launcher.failures.report import environment_traceback
from fast_core.launcher.failures.sources import Sources
from fast_core.launcher.prepare import identity
from fast_core.launcher.processes.early import descriptors_needed, expected_nodes, preloaded, warm
from fast_core.launcher.processes.interrupts import Interrupted, Interrupts
from fast_core.launcher.processes.start import probe_start
from fast_core.launcher.processes.tree import ProcessTree
from fast_core.launcher.shell import Shell
from fast_core.launcher.shown.display import Display
from fast_core.launcher.shown.records import TraceDrain, write_crash, write_records
from fast_core.launcher.shown.versions import write_versions
from fast_core.launcher.sizing.placement import Choice
from fast_core.launcher.sizing.trial import measure, spawn_trial, with_placement
from fast_core.launcher.supervisor import PROBE, TERMINATE_GRACE_S, Supervisor, ask_probe
from fast_core.launcher.topology import topology
from fast_core.launcher.verdict import Found, Verdict, judge
from fast_core.monitor.bounded_logs import BoundedLogs
from fast_core.monitor.crash import crash_report
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import RunLock
from fast_core.monitor.screen import make_progress
from fast_core.plan import RunPlan
from fast_core.run_memory import RunMemory
from fast_core.system import resources, threads
from fast_core.system.surroundings import check_descriptors

NODE_TARGET = "fast_core.launcher.processes.node_process:node_main"
PROBE_TARGET = "fast_core.launcher.processes.node_process:probe_main"
SOCKET_NAME = "scheduler"
EXIT_FAILED = 1
CHECKING_S = 3.0  # between lines about a checkpoint that takes long to read


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
            self._progress.log(LogLine("launcher", "INFO", text))


def launch(config: RunConfig, *, resume_from: Path | None = None) -> int:
    """Train in a new run directory.

    Args:
        config: What to train.
        resume_from: A run whose newest checkpoint is the starting point.

    Returns:
        The exit status: 0 finished, 1 failed, 128 + signal number when interrupted.

    Raises:
        FastLoopError: The run could not be started.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress(sys.stdout)
        stack.callback(progress.close)
        continuation = None
        if resume_from is not None:
            source = RunDirectory.open(resume_from)
        run = RunDirectory.create(config.directory, config.name, datetime.now(), config.seed)
        stack.callback(_lock(run, progress).close)
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
                return _never_began(interrupt, progress, interrupts)
            continuation = Continuation(checkpoint, manifest, same_directory=False)
        return _run(config, run, continuation, progress, interrupts)


def resume(run: Path, overrides: list[str]) -> int:
    """Continue a run in its own directory from its newest complete checkpoint.

    Raises:
        FastLoopError: There is nothing to continue, or the overrides don't fit it.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress(sys.stdout)
        stack.callback(progress.close)
        found = RunDirectory.open(run)
        stack.callback(_lock(found, progress).close)
        config = load_run_config(found, overrides)
        config = with_horizon_of(found, config)
        drop_abandoned(found.checkpoints)
        try:
            path, manifest, notes = newest_valid(found.checkpoints, Checking(interrupts, progress))
        except Interrupted as interrupt:
            return _never_began(interrupt, progress, interrupts)
        for note in notes:
            progress.log(LogLine("launcher", "WARNING", note))
        config = with_saved_steps(config, manifest)
        check_identity(manifest, identity(config), path, f"{str(found.config)!r} with overrides")
        continuation = Continuation(path, manifest, same_directory=True)
        if found.crash.exists():  # of an earlier part of the run
            found.crash.replace(found.crash.with_name("crash.previous.txt"))
        return _run(config, found, continuation, progress, interrupts)


def with_saved_steps(config: RunConfig, manifest: Manifest) -> RunConfig:
    """``rollout.steps: auto`` stands for what it stood for in the run that is continued."""
    saved = manifest.identity.get("rollout")
    if config.rollout.steps != "auto" or saved is None:
        return config
    steps = msgspec.json.decode(saved, type=RolloutConfig).steps
    rollout = msgspec.structs.replace(config.rollout, steps=steps)
    return msgspec.structs.replace(config, rollout=rollout)


def validate(config: RunConfig) -> int:
    """Come to the verdict that `launch` would come to, and leave nothing.

    Returns:
        The exit status: 0, or 128 + signal number when interrupted.

    Raises:
        FastLoopError: The run could not be started.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        run = RunDirectory.create(config.directory, config.name, datetime.now())
        stack.callback(run.remove)
        tree = _tree(config, run, stack)
        try:
            judge(config, lambda: _look(tree, config, interrupts, runs=False), str(run.path))
        except Interrupted:
            return interrupts.exit_code
    return 0


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
    from fast_core.algos.registry import algorithm_config_type

    return config_file.load(run.config, overrides, algorithm_config_type, resolved=True)


def _lock(run: RunDirectory, progress: Progress) -> RunLock:
    lock = run.lock()
    if lock.note:
        progress.log(LogLine("launcher", "WARNING", lock.note))
    return lock


def _run(
    config: RunConfig,
    run: RunDirectory,
    continuation: Continuation | None,
    progress: Progress,
    interrupts: Interrupts,
) -> int:
    for name, value in threads.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        start = _run_inline if config.mode == "inline" else _run_processes
        with BoundedLogs(run.logs):
            return start(config, run, continuation, progress, interrupts)
    except Interrupted as interrupt:
        return _never_began(interrupt, progress, interrupts)
    except (ConfigError, TopologyError, SegmentError):
        # Nothing has begun, so nothing is left of the attempt but the run it would have continued.
        if continuation is None or not continuation.same_directory:
            run.remove()
        raise
    except FastLoopError as error:
        interrupts.check_forced()
        write_versions(run, datetime.now())
        write_crash(run, f"{error}\n", progress)
        raise


def _never_began(interrupt: Interrupted, progress: Progress, interrupts: Interrupts) -> int:
    progress.log(LogLine("launcher", "INFO", f"{interrupt} before training began"))
    return interrupts.exit_code


# --- process mode ------------------------------------------------------------------------------


def _run_processes(
    config: RunConfig,
    run: RunDirectory,
    continuation: Continuation | None,
    progress: Progress,
    interrupts: Interrupts,
) -> int:
    sources = Sources()
    with ExitStack() as stack:
        tree = _tree(config, run, stack)
        verdict = _verdict(config, run, continuation, lambda: _look(tree, config, interrupts))
        plan = verdict.plan
        nodes = topology(plan)
        for node in nodes:  # those that are not there yet
            if node.name not in tree.children:
                tree.spawn(node.name, NODE_TARGET, warm=warm(node.name, plan.config))
        interrupts.check()
        memory = RunMemory.create(plan, interrupts.check)
        stack.callback(memory.close)
        socket_path = tree.directory / SOCKET_NAME
        hub = ZmqHub(str(socket_path))
        stack.callback(hub.close)
        shell = _shell(plan, run, hub, memory, progress, continuation, sources)
        stack.callback(shell.close)
        _tell(shell, verdict)
        trace = TraceDrain(plan, memory)
        display = Display(shell, progress, trace)
        supervisor = Supervisor(plan, tree, memory, hub, shell, interrupts, display.refresh)
        supervisor.start(nodes, socket_path)
        write_versions(run, datetime.now())  # while the nodes get ready
        supervisor.run()
        return _finish(shell, display, trace, progress, interrupts)


def _tree(config: RunConfig, run: RunDirectory, stack: ExitStack) -> ProcessTree:
    if config.mode == "process":  # else only the probe starts here, for `validate`
        check_descriptors(descriptors_needed(config, resources.cores().granted))
    with blaming(config.algorithm):
        preload = preloaded(config)
    tree = ProcessTree(
        preload=preload,
        environment=threads.ENVIRONMENT,
        log=run.logs / "fork-server.log",
    )
    stack.callback(tree.close, TERMINATE_GRACE_S)
    return tree


def _look(
    tree: ProcessTree, config: RunConfig, interrupts: Interrupts, *, runs: bool = True
) -> Found:
    """Ask the probe process, and measure; ``runs`` says that nodes will be needed."""
    cores = resources.cores().granted
    probe = tree.spawn(PROBE, PROBE_TARGET)
    auto = config.policy.placement == "auto"
    if runs and auto:
        spawn_trial(tree)  # alone, or the imports of the nodes would be measured too
    elif runs:  # the slow imports of these nodes overlap with everything that follows
        for name in expected_nodes(config, cores):
            tree.spawn(name, NODE_TARGET, warm=warm(name, config))
    start = probe_start(config)
    environment = ask_probe(tree, probe, start, interrupts, config.supervision.start_timeout_s)
    if not (runs and auto):
        return Found(environment, config)
    placed = measure(tree, config, environment, cores, interrupts)
    return Found(environment, with_placement(config, placed), placed)


def _verdict(
    config: RunConfig,
    run: RunDirectory,
    continuation: Continuation | None,
    look: Callable[[], Found],
) -> Verdict:
    continued = continuation is not None and continuation.same_directory
    verdict = judge(
        config,
        look,
        str(run.path),
        checkpoint=str(continuation.checkpoint) if continuation is not None else None,
        continued_env_steps=continuation.manifest.env_steps if continuation and continued else None,
        kept_bytes=checkpoints_bytes(run.checkpoints),
    )
    if not continued:  # a new run keeps it even if it never begins; see Shell for the other case
        run.write_config(config_file.dumps(verdict.plan.config))
    return verdict


def _shell(
    plan: RunPlan,
    run: RunDirectory,
    hub: Hub,
    memory: RunMemory,
    progress: Progress,
    continuation: Continuation | None,
    sources: Sources | None = None,
) -> Shell:
    state = (continuation.checkpoint / SCHEDULER_FILE).read_bytes() if continuation else None
    text = config_file.dumps(plan.config)
    return Shell(plan, run, hub, memory.stats(), progress, state, text, sources)


def _tell(shell: Shell, verdict: Verdict) -> None:
    """Write down who got how many threads and why, and warn of what is not as it should be."""
    divided, found = verdict.divided, verdict.found
    shell.decide("cores", " ".join(divided.reasons))
    warnings = [*divided.warnings]
    if found.environment.cast:
        warnings.append(
            f"environment {found.environment.id!r} gives {found.environment.cast} that its "
            "observation space declares; they are cast. Return what it declares to save the time"
        )
    for warning in warnings:
        shell.progress.log(LogLine("launcher", "WARNING", warning))
    if found.placed is not None:
        _tell_placement(shell, found.placed)


def _tell_placement(shell: Shell, placed: Choice | str) -> None:
    """Write down what ``policy.placement: auto`` chose and why."""
    if isinstance(placed, Choice):
        shell.decide("placement", placed.why)
        shell.progress.log(LogLine("launcher", "INFO", f"policy.placement {placed.why}"))
    else:
        text = f"env, because it could not be measured: {placed}"
        shell.decide("placement", text)
        shell.progress.log(LogLine("launcher", "WARNING", f"policy.placement {text}"))


# --- inline mode -------------------------------------------------------------------------------


def _run_inline(
    config: RunConfig,
    run: RunDirectory,
    continuation: Continuation | None,
    progress: Progress,
    interrupts: Interrupts,
) -> int:
    from fast_core.envs.probe import probe
    from fast_core.launcher.inline import InlineRun
    from fast_core.nodes.learn.devices import check_devices

    def end(failed: Failed) -> NoReturn:
        """What the main thread can't do: it does not come back."""
        report = crash_report(failed, [], run_directory=str(run.path))
        write_crash(run, report, progress)
        progress.fail(report)
        progress.close()
        os._exit(EXIT_FAILED)

    interrupts.raises = True
    with ExitStack() as stack:
        limits = stack.enter_context(Limits(interrupts, end))

        def look() -> Found:
            start, before = probe_start(config), limits.probing(config)
            check_devices(start.optimizer, start.policy_device)
            try:
                found = probe(start.environment, start.seed, number=start.number, before=before)
            except ConfigError as error:
                own = environment_traceback(error)
                raise ConfigError(
                    f"the environment raised:\n{own}{error}" if own else str(error)
                ) from error
            limits.rest()
            return Found(found, config)

        verdict = _verdict(config, run, continuation, look)
        plan = verdict.plan
        nodes = topology(plan)
        memory = RunMemory.create(plan, interrupts.check)
        stack.callback(memory.close)
        hub = InprocHub()
        shell = _shell(plan, run, hub, memory, progress, continuation)
        stack.callback(shell.close)
        _tell(shell, verdict)
        trace = TraceDrain(plan, memory)
        display = Display(shell, progress, trace)
        inline = InlineRun(plan, memory, hub, shell, interrupts, display.refresh, limits)
        stack.callback(inline.close)
        inline.start(nodes)
        write_versions(run, datetime.now())
        inline.run()
        return _finish(shell, display, trace, progress, interrupts)


# --- the end -----------------------------------------------------------------------------------


def _finish(
    shell: Shell, display: Display, trace: TraceDrain, progress: Progress, interrupts: Interrupts
) -> int:
    """Say and write how it ended; returns the exit status."""
    end = shell.end
    assert end is not None
    summary, report = display.summary(), ""
    if end.reason == "failed":
        assert end.cause is not None
        if end.cause.refused:
            raise ConfigError(end.cause.error)
        later = [failure for failure in shell.failures if failure.node != end.cause.node]
        report = crash_report(end.cause, later, run_directory=str(shell.run.path))
        write_crash(shell.run, report, progress)
    shell.write_summary(summary)
    write_records(shell.run, trace, progress)
    report_path = str(shell.run.report) if shell.run.report.exists() else ""
    progress.finish(replace(summary, report=report_path))
    if report:
        progress.fail(report)
    return {"finished": 0, "failed": EXIT_FAILED, "interrupted": interrupts.exit_code}[end.reason]
