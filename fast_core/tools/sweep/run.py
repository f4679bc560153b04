"""Carrying out a sweep: from its file to an end that says how every run ended."""

from __future__ import annotations

import select
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fast_core.errors import ConfigError, SegmentError, TopologyError
from fast_core.launcher.run import examine
from fast_core.launcher.verdict import Findings, Verdict, judge
from fast_core.memory import memory_available
from fast_core.monitor.run_directory import SWEEP_FILE
from fast_core.monitor.run_lock import RunLock, holder
from fast_core.monitor.run_state import RunState, find_runs
from fast_core.run.memory import layout_of
from fast_core.run.needs import SHARE_OFFERED, private_nbytes
from fast_core.run.structures import structures
from fast_core.system import resources
from fast_core.system.durable import write_durably
from fast_core.system.interrupts import Interrupted, Interrupts
from fast_core.tools.sweep.file import Sweep, Variant, read_sweep
from fast_core.tools.sweep.share import PROCESS_BYTES, MachineShare, Need, needed_cores, share
from fast_core.tools.sweep.shown import Screen
from fast_core.tools.sweep.tasks import RunConfigs, Task, others, tasks_of

_POLL_S = 0.1
_LOOK_S = 1.0


@dataclass(frozen=True)
class SweepRun:
    """How one run of a sweep ended.

    Attributes:
        variant: Its folder's name in the sweep's.
        seed: Its seed.
        status: ``finished``, ``failed``, ``interrupted`` or ``waiting``: never begun.
        cause: Why it failed.
        state: What its directory says, None where it has none.
    """

    variant: str
    seed: int
    status: str
    cause: str
    state: RunState | None


@dataclass(frozen=True)
class SweepResult:
    """How a sweep ended.

    Attributes:
        folder: Where everything of it lies.
        runs: Every run of it.
        exit_code: 0 if all have finished, 1 if any failed, 128 + signal number if it was stopped.
    """

    folder: Path
    runs: tuple[SweepRun, ...]
    exit_code: int


def sweep(path: str | Path, overrides: Sequence[str] = ()) -> SweepResult:
    """Carry out a sweep, or go on with one; tells on standard output how it goes.

    Args:
        path: A sweep's file, or the folder of one that was begun.
        overrides: ``key=value`` each, see `read_sweep`.

    Raises:
        FastLoopError: Something of it could not run; nothing was started then.
    """
    planned = read_sweep(Path(path), overrides)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        screen = Screen(sys.stdout)
        stack.callback(screen.close)
        tasks = _settled(planned)
        try:
            need = _examined(tasks, interrupts, screen)
        except Interrupted:
            return _result(planned, tasks, interrupts)
        planned.folder.mkdir(parents=True, exist_ok=True)
        stack.callback(_lock(planned).close)
        write_durably(planned.folder / SWEEP_FILE, planned.text.encode())
        divided = _divided(planned, len(tasks), need)
        _tell_begin(planned, tasks, divided, need, screen)
        _carry_out(tasks, divided, interrupts, screen)
        screen.close()
        _tell_end(planned, tasks, screen)
        return _result(planned, tasks, interrupts)


def _settled(planned: Sweep) -> list[Task]:
    tasks, configs = tasks_of(planned), RunConfigs()
    for task in tasks:
        task.settle()
        task.check(configs)
    return tasks


def _examined(tasks: Sequence[Task], interrupts: Interrupts, screen: Screen) -> Need:
    """Come to the verdict of a launch about every configuration that is to run; what it needs.

    Each environment is made once, by a process of its own. The cores are what the whole sweep
    needs, so that what is left of it later gets the same share.
    """
    found: dict[bytes, Findings] = {}
    variants = {id(task.variant): task.variant for task in tasks if task.status == "waiting"}
    if len(variants) > 1:
        screen.say(f"checking {len(variants)} configurations")
    nbytes = [_nbytes(_verdict(each, found, interrupts)) for each in variants.values()]
    cores = max(needed_cores(task.variant.config) for task in tasks)
    return Need(cores, max(nbytes, default=0))


def _verdict(variant: Variant, found: dict[bytes, Findings], interrupts: Interrupts) -> Verdict:
    # Beside the sweep's folder, which there is none of before everything is known to be right.
    folder = Path(variant.config.directory).parent
    config = msgspec.structs.replace(variant.config, directory=str(folder))
    nodes = config.nodes
    key = msgspec.json.encode((config.environment, nodes.optimizer, nodes.policy, config.policy))
    try:
        if (known := found.get(key)) is not None:
            interrupts.check()
            seen = Findings(known.environment, config)
            there = next(above for above in (folder, *folder.parents) if above.is_dir())
            return judge(config, lambda: seen, str(there))
        verdict = examine(config, interrupts)
    except (ConfigError, TopologyError, SegmentError) as error:
        raise type(error)(f"{variant.name}: {error}") from error
    found[key] = verdict.found
    return verdict


def _nbytes(verdict: Verdict) -> int:
    """Memory that a run takes: what is shared, and its processes."""
    plan = verdict.plan
    shared = layout_of(structures(plan)).nbytes + private_nbytes(plan)
    return shared + PROCESS_BYTES * (1 + len(plan.names.all))


def _lock(planned: Sweep) -> RunLock:
    path = planned.folder / "lock"
    if (pid := holder(path)) is not None:
        raise ConfigError(
            f"the sweep in {str(planned.folder)!r} is being carried out by process {pid}. Wait "
            "until it ends or stop it; for another one beside it, give `name=...`."
        )
    return RunLock(path)


def _divided(planned: Sweep, runs: int, need: Need) -> MachineShare:
    cores, free = resources.cores(), memory_available()
    limits = [limit for limit in (free.ram_bytes, free.cgroup_bytes) if limit is not None]
    free_bytes = int(min(limits) * SHARE_OFFERED) if limits else None
    return share(runs, need, cores.ids, cores.granted, free_bytes, planned.jobs)


def _carry_out(
    tasks: Sequence[Task], divided: MachineShare, interrupts: Interrupts, screen: Screen
) -> None:
    """Run what is to be run; whatever happens here, no process is left."""
    free = list(range(divided.jobs))
    pressed, look_s = 0, 0.0
    try:
        while True:
            for task in tasks:
                if task.poll(stopping=pressed > 0):
                    free.append(task.slot)
                    screen.changed(task)
            if not pressed:
                _start(tasks, free, divided, screen)
            running = [task for task in tasks if task.child is not None]
            left = [task for task in tasks if task.status in ("waiting", "elsewhere")]
            if not running and (pressed or not left):
                return
            if time.monotonic() >= look_s:
                look_s = time.monotonic() + _LOOK_S
                for task in running:
                    task.look()
                for task in tasks:
                    if task.status == "elsewhere":
                        task.settle()
            screen.update(tasks)
            select.select([interrupts], [], [], _POLL_S)
            interrupts.drain()
            if interrupts.count > pressed:
                pressed = interrupts.count
                _stop(running, pressed)
    finally:
        _stop(tasks, 3)


def _start(tasks: Sequence[Task], free: list[int], divided: MachineShare, screen: Screen) -> None:
    for task in tasks:
        if not free:
            return
        if task.status == "waiting":
            slot = min(free)
            free.remove(slot)
            task.start(divided.slots[slot], slot)
            screen.changed(task)


def _stop(tasks: Sequence[Task], pressed: int) -> None:
    """First in order, with checkpoints; then at once; then as the kernel does it."""
    for task in tasks:
        if task.child is not None and pressed < 3:
            task.child.interrupt()
        elif task.child is not None:
            task.child.kill()


def _tell_begin(
    planned: Sweep, tasks: Sequence[Task], divided: MachineShare, need: Need, screen: Screen
) -> None:
    variants, seeds = len(planned.variants), len(planned.seeds)
    cores = len(divided.slots[0])
    screen.say(
        f"sweep {planned.name}: {_plural(len(tasks), 'run')} "
        f"({_plural(variants, 'variant')}, {_plural(seeds, 'seed')}), {divided.jobs} at once on "
        f"{_plural(cores, 'core')} each ({divided.why})"
    )
    if need.cores > cores:
        screen.say(
            f"a run keeps {_plural(need.cores, 'core')} busy, as its nodes.*.count and "
            "nodes.*.threads say: its processes will wait for one another",
            "yellow",
        )
    done = sum(task.status == "finished" for task in tasks)
    going_on = sum(task.status == "waiting" and task.state is not None for task in tasks)
    elsewhere = sum(task.status == "elsewhere" for task in tasks)
    if done or going_on:
        screen.say(f"{done} finished before, {going_on} begun before")
    if elsewhere:
        screen.say(f"{_plural(elsewhere, 'run')} in the hands of other processes: waited for")
    if left := others(planned, find_runs(planned.folder)):
        screen.say(f"{_plural(left, 'run')} in {planned.folder} not of this sweep: left alone")


def _tell_end(planned: Sweep, tasks: Sequence[Task], screen: Screen) -> None:
    where = shlex.quote(str(planned.folder))
    finished = sum(task.status == "finished" for task in tasks)
    screen.say(f"{finished} of {_plural(len(tasks), 'run')} finished")
    screen.say(f"compare them  fastloop compare {where}")
    failed = [task for task in tasks if task.status == "failed"]
    if finished < len(tasks):
        again = "go on" if len(failed) < len(tasks) - finished else "try again"
        screen.say(f"{again:<12}  fastloop sweep {where}")
    for task in failed:
        place = task.state.path if task.state is not None else task.log
        screen.say(f"failed: {task.name}: {task.cause}\n  {place}", "red")


def _result(planned: Sweep, tasks: Sequence[Task], interrupts: Interrupts) -> SweepResult:
    runs = tuple(
        SweepRun(task.variant.name, task.seed, task.status, task.cause, task.state)
        for task in tasks
    )
    if interrupts.count:
        code = interrupts.exit_code
    else:
        code = 0 if all(run.status == "finished" for run in runs) else 1
    return SweepResult(planned.folder, runs, code)


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
