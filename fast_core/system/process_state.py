"""What the kernel says a process is doing, for when it can't say so itself."""

from __future__ import annotations

from pathlib import Path

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


def process_state(pid: int) -> str:
    """What the main thread of a process does, in words; empty where the kernel does not say."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    return _STATES.get(stat.rpartition(")")[2].split()[0], "")
