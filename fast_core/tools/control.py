"""`fastloop ps`, `stop` and `save`: what runs, and what is asked of it from another terminal."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import msgspec

from fast_core.errors import ConfigError, TransportError
from fast_core.monitor import control_socket
from fast_core.monitor.control_socket import SOCKET
from fast_core.monitor.figures import UNKNOWN, aligned, count, duration, printable
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import not_running, read_state
from fast_core.system import remains
from fast_core.system.owner import is_dead, this_process
from fast_core.system.process_state import is_stopped
from fast_core.system.surroundings import write_result

LOOK_S = 2.0  # for a run to say how it is
_HEAD = ("run", "state", "pid", "trained for", "env steps", "per s", "degree", "env nodes")
KINDS = ("env", "policy", "optimizer", "replay", "evaluator", "metrics")


@dataclass(frozen=True, kw_only=True)
class Running:
    """A run of this user on this machine.

    Attributes:
        path: Its directory.
        state: What it is about, ``busy`` if it does not answer, ``stopped`` if it can't.
        pid: The process that launched it.
        since_s: For how long it has trained, earlier parts included; None while it starts.
        env_steps: Environment steps trained on.
        env_steps_per_s: Their rate of late.
        degree: ``off_policy_degree`` at the moment.
        env_nodes: Env nodes that execute shards.
    """

    path: Path
    state: str
    pid: int
    since_s: float | None = None
    env_steps: int | None = None
    env_steps_per_s: float | None = None
    degree: int | None = None
    env_nodes: int | None = None


def running() -> list[Running]:
    """Runs whose launcher lives, in the order of their directories."""
    me, found = this_process(), []
    for folder, owner in remains.folders():
        path = remains.run_of(folder)
        if path is None or owner is None or me is None:
            continue
        if owner[:3] == me[:3] and not is_dead(owner, me):
            found.append(_look(Path(folder), Path(path), owner.pid))
    return sorted(found, key=lambda each: str(each.path))


def _look(folder: Path, path: Path, pid: int) -> Running:
    if is_stopped(pid):
        return Running(path=path, state="stopped", pid=pid)
    try:
        if (status := control_socket.status(folder / SOCKET, LOOK_S)) is not None:
            return Running(
                path=path,
                state=status.phase,
                pid=pid,
                since_s=status.elapsed_s,
                env_steps=status.env_steps,
                env_steps_per_s=status.env_steps_per_s,
                degree=status.degree,
                env_nodes=status.env_nodes,
            )
    except TransportError:
        return Running(path=path, state="busy", pid=pid)
    except OSError:
        pass
    return Running(path=path, state="starting", pid=pid)


def show_running(*, as_json: bool = False) -> int:
    """Print them, as a table or as a JSON array; returns the exit status."""
    runs = running()
    if as_json:
        rows = msgspec.to_builtins(runs, enc_hook=str)
        write_result(msgspec.json.format(msgspec.json.encode(rows)).decode())
    elif runs:
        write_result("\n".join(aligned([_HEAD, *map(_cells, runs)], range(2, len(_HEAD)))))
    else:
        write_result("no run of yours on this machine")
    return 0


def _cells(run: Running) -> tuple[str, ...]:
    rate = run.env_steps_per_s
    return (
        printable(control_socket.short(run.path)),
        printable(run.state),
        str(run.pid),
        UNKNOWN if run.since_s is None else duration(run.since_s),
        UNKNOWN if run.env_steps is None else count(run.env_steps),
        UNKNOWN if not rate else count(round(rate)),
        UNKNOWN if run.degree is None else str(run.degree),
        UNKNOWN if run.env_nodes is None else str(run.env_nodes),
    )


def stop_run(path: Path, *, wait: bool) -> int:
    """End a run in order and say what became of it; returns the exit status."""
    run = RunDirectory.open(path, not_running)
    control_socket.stop(run, wait=wait)
    if not wait:
        write_result(f"{control_socket.short(run.path)} ends")
        return 0
    state = read_state(run.path)
    text = f"{control_socket.short(run.path)} has ended: {state.text or state.state}"
    if state.state == "interrupted" and state.checkpoint:
        text += f"; `{control_socket.resume_command(run)}` goes on from {state.checkpoint}"
    write_result(text)
    return int(state.state == "failed")


def scale_run(path: Path, changes: list[str], *, wait: bool) -> int:
    """Have nodes come or go in a run, one kind after the other; returns the exit status."""
    run, requests = RunDirectory.open(path, not_running), [read_scale(text) for text in changes]
    for kind, number, relative in requests:
        answer = control_socket.scale(run, kind, number, relative=relative, wait=wait)
        write_result(f"{control_socket.short(run.path)}: {answer.text}")
    return 0


def read_scale(text: str) -> tuple[str, int, bool]:
    """What ``env=4``, ``env=+2`` or ``env=-1`` asks for: nodes, how many, whether more or fewer.

    Raises:
        ConfigError: It is nothing of the kind.
    """
    kind, _, number = text.partition("=")
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, 1)
        meant = f" Did you mean {near[0]}={number}?" if near and number else ""
        raise ConfigError(
            "scale takes env=4 (so many), env=+2 (more) or env=-1 (fewer), and policy likewise; "
            f"got {text!r}.{meant}"
        )
    if not re.fullmatch(r"[+-]?[0-9]{1,6}", number):
        raise ConfigError(
            f"how many {kind} nodes is a whole number, as in {kind}=4, {kind}=+2 or {kind}=-1; got "
            f"{text!r}"
        )
    return kind, int(number), number[0] in "+-"


def save_run(path: Path, *, wait: bool) -> int:
    """Have a run write a checkpoint and say where it is; returns the exit status."""
    run, begun_s = RunDirectory.open(path, not_running), time.monotonic()
    answer = control_socket.save(run, wait=wait)
    if answer.path:
        note = f" ({answer.text})" if answer.text else f" ({time.monotonic() - begun_s:.1f} s)"
        write_result(f"{control_socket.short(Path(answer.path))}{note}")
    else:
        write_result(f"{control_socket.short(run.path)}: {answer.text}")
    return 0
