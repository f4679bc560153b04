"""What the kernel says a process is doing, for when it can't say so itself."""

from __future__ import annotations

import os
from pathlib import Path

EXEC = "Code that was called in it used os.exec*; let it start the program with subprocess instead"
STOPPED = "stopped by a signal"
_STATES = {
    "R": "computing",
    "S": "asleep in a system call",
    "D": "in a system call that can't be interrupted: a disk or a driver does not answer",
    "T": STOPPED,
    "t": "stopped by a debugger",
    "Z": "gone",
    "X": "gone",
}


def is_traced(pid: int) -> bool:
    """Whether somebody looks at a process through a debugger, which may hold it for hours."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in lines)


def is_stopped(pid: int) -> bool:
    """Whether a process stands still until somebody lets it go on: Ctrl-Z, SIGSTOP, a debugger."""
    return process_state(pid).startswith("stopped")


def is_held_up(pid: int) -> bool:
    """Whether something outside keeps a process from going on: a stop, a debugger, a disk.

    What a thread reads from a file or from swap it waits for with Python's lock, if it has that.
    """
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    states = {_state(f"/proc/{pid}/task/{thread}/stat") for thread in threads}
    return bool(states & {"D", "T", "t"}) or is_traced(pid)


def process_state(pid: int) -> str:
    """What the main thread of a process does, in words; empty where the kernel does not say."""
    return _STATES.get(_state(f"/proc/{pid}/stat"), "")


def _state(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def program_without(pid: int, file: int) -> str:
    """The command line of a process that has nothing of an open ``file`` in its memory.

    A process of ours that had it mapped, as this one has, has executed another program
    (``os.exec*``) then, and nothing of what it was is left. Empty where it has, where it is gone,
    or where the kernel does not say, not even of this process.
    """
    executes = _maps(pid, file) is False and _maps(os.getpid(), file)
    return command_line(pid) if executes else ""


def _maps(pid: int, file: int) -> bool | None:
    found = os.fstat(file)
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    try:
        lines = Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return (
        any(line.split()[3:5] == [device, str(found.st_ino)] for line in lines) if lines else None
    )


def command_line(pid: int) -> str:
    """The command line of a process; empty where the kernel does not say."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ").strip()
    except OSError:
        return ""
