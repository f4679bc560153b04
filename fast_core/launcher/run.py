"""Launching, resuming: from a configuration to an exit status.

The order matters for start-up time: the processes start first and import while the configuration
is being checked and memory is being laid out here.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from fast_core import config_file, resources, threads
from fast_core.config import RolloutConfig, RunConfig
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
from fast_core.events import LogLine
from fast_core.launcher.blame import blaming
from fast_core.launcher.budget import CoreBudget
from fast_core.launcher.checkpoints import (
    SCHEDULER_FILE,
    Manifest,
    check_identity,
    copy_newest,
    drop_abandoned,
    newest_valid,
)
from fast_core.launcher.disk_room import check_disk, checkpoints_bytes
from fast_core.launcher.display import Display
from fast_core.launcher.early import expected_nodes, preloaded, warm
from fast_core.launcher.interrupts import Interrupted, Interrupts
from fast_core.launcher.placement import Choice
from fast_core.launcher.prepare import budget, identity, make_plan, resolve
from fast_core.launcher.processes import ProcessTree
from fast_core.launcher.records import TraceDrain, write_crash, write_records
from fast_core.launcher.shell import Shell
from fast_core.launcher.start import ProbeStart
from fast_core.launcher.supervisor import PROBE, TERMINATE_GRACE_S, Supervisor, ask_probe
from fast_core.launcher.topology import check_topology, topology
from fast_core.launcher.trial import measure, spawn_trial, with_placement
from fast_core.monitor.crash import crash_report
from fast_core.monitor.progress import Progress
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import RunLock
from fast_core.monitor.screen import make_progress
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.spec import EnvironmentSpec

NODE_TARGET = "fast_core.launcher.node_process:node_main"
PROBE_TARGET = "fast_core.launcher.node_process:probe_main"
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
        run = RunDirectory.create(config.directory, config.name, datetime.now())
        stack.callback(_lock(run, progress).close)
        if resume_from is not None:
            try:
                checkpoint, manifest = copy_newest(
                    source.checkpoints, run.checkpoints, Checking(interrupts, progress)
                )
                origin = source.checkpoints / checkpoint.name
                config = with_saved_steps(config, manifest)
                check_identity(manifest, identity(config), origin, "the configuration")
            except CheckpointError:
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


def load_run_config(run: RunDirectory, overrides: list[str]) -> RunConfig:
    """The resolved configuration of a run, with overrides."""
    from fast_core.algos.registry import algorithm_config_type

    return config_file.load(run.config, overrides, algorithm_config_type)


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
        check_topology(config)
        start = _run_inline if config.mode == "inline" else _run_processes
        with blaming(config.algorithm):
            return start(config, run, continuation, progress, interrupts)
    except Interrupted as interrupt:
        return _never_began(interrupt, progress, interrupts)
    except (ConfigError, TopologyError, SegmentError):
        # Nothing has begun, so nothing is left of the attempt but the run it would have continued.
        if continuation is None or not continuation.same_directory:
            run.remove()
        raise
    except FastLoopError as error:
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
    cores = resources.cores().granted
    with ExitStack() as stack:
        tree = ProcessTree(
            preload=preloaded(config),
            environment=threads.ENVIRONMENT,
            log=run.logs / "fork-server.log",
        )
        stack.callback(tree.close, TERMINATE_GRACE_S)
        probe = tree.spawn(PROBE, PROBE_TARGET)
        if config.policy.placement == "auto":
            spawn_trial(tree)  # alone, or the imports of the nodes would be measured too
        else:  # the slow imports of these nodes overlap with everything below
            for name in expected_nodes(config, cores):
                tree.spawn(name, NODE_TARGET, warm=warm(name, config))
        environment = ask_probe(
            tree,
            probe,
            ProbeStart(config.environment, config.seed),
            interrupts,
            config.supervision.start_timeout_s,
        )
        placed = None
        if config.policy.placement == "auto":
            placed = measure(tree, config, environment, cores, interrupts)
            config = with_placement(config, placed)
        divided = budget(config, environment, cores)
        config = resolve(config, environment, cores)
        plan = _plan(config, environment, run, continuation)
        nodes = topology(plan)
        for node in nodes:  # those that are not there yet
            if node.name not in tree.children:
                tree.spawn(node.name, NODE_TARGET, warm=warm(node.name, config))
        interrupts.check()
        memory = RunMemory.create(plan, interrupts.check)
        stack.callback(memory.close)
        socket_path = tree.directory / SOCKET_NAME
        hub = ZmqHub(str(socket_path))
        stack.callback(hub.close)
        shell = _shell(plan, run, hub, memory, progress, continuation)
        stack.callback(shell.close)
        _tell_budget(shell, divided)
        _tell_placement(shell, placed)
        trace = TraceDrain(plan, memory)
        display = Display(shell, progress, trace)
        supervisor = Supervisor(plan, tree, memory, hub, shell, interrupts, display.refresh)
        supervisor.start(nodes, socket_path)
        supervisor.run()
        return _finish(shell, display, trace, progress, interrupts)


def _plan(
    config: RunConfig,
    environment: EnvironmentSpec,
    run: RunDirectory,
    continuation: Continuation | None,
) -> RunPlan:
    continued = continuation is not None and continuation.same_directory
    plan = make_plan(
        config,
        environment,
        str(run.path),
        str(continuation.checkpoint) if continuation is not None else None,
        continuation.manifest.env_steps if continuation is not None and continued else None,
    )
    check_disk(plan, checkpoints_bytes(run.checkpoints))
    if not continued:  # a new run keeps it even if it never begins; see Shell for the other case
        run.write_config(config_file.dumps(config))
    return plan


def _shell(
    plan: RunPlan,
    run: RunDirectory,
    hub: Hub,
    memory: RunMemory,
    progress: Progress,
    continuation: Continuation | None,
) -> Shell:
    state = (continuation.checkpoint / SCHEDULER_FILE).read_bytes() if continuation else None
    text = config_file.dumps(plan.config)
    return Shell(plan, run, hub, memory.all_stats(), progress, state, text)


def _tell_budget(shell: Shell, divided: CoreBudget) -> None:
    """Write down who got how many threads and why; warn of more than there are cores."""
    shell.decide("cores", " ".join(divided.reasons))
    for warning in divided.warnings:
        shell.progress.log(LogLine("launcher", "WARNING", warning))


def _tell_placement(shell: Shell, placed: Choice | str | None) -> None:
    """Write down what ``policy.placement: auto`` chose and why."""
    if isinstance(placed, Choice):
        shell.decide("placement", placed.why)
        shell.progress.log(LogLine("launcher", "INFO", f"policy.placement {placed.why}"))
    elif placed is not None:
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

    interrupts.raises = True
    with ExitStack() as stack:
        environment = probe(config.environment, config.seed)
        cores = resources.cores().granted
        divided = budget(config, environment, cores)
        config = resolve(config, environment, cores)
        plan = _plan(config, environment, run, continuation)
        nodes = topology(plan)
        memory = RunMemory.create(plan, interrupts.check)
        stack.callback(memory.close)
        hub = InprocHub()
        shell = _shell(plan, run, hub, memory, progress, continuation)
        stack.callback(shell.close)
        _tell_budget(shell, divided)
        trace = TraceDrain(plan, memory)
        display = Display(shell, progress, trace)
        inline = InlineRun(plan, memory, hub, shell, interrupts, display.refresh)
        stack.callback(inline.close)
        inline.start(nodes)
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
        later = [failure for failure in shell.failures if failure.node != end.cause.node]
        report = crash_report(end.cause, later, run_directory=str(shell.run.path))
        write_crash(shell.run, report, progress)
    shell.write_summary(summary)
    write_records(shell.run, trace, progress)
    progress.finish(summary)
    if report:
        progress.fail(report)
    return {"finished": 0, "failed": EXIT_FAILED, "interrupted": interrupts.exit_code}[end.reason]
