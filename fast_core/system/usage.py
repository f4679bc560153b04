"""What a process and those below it take of the machine, as Linux tells it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def family(pid: int) -> list[int]:
    """``pid`` and every process below it; those that end meanwhile may be missing."""
    found = [pid]
    for task in _tasks(pid):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += family(int(child))
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """Processor seconds of all threads that these processes have now, so far."""
    total = 0
    for task in (task for pid in pids for task in _tasks(pid)):
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (OSError, IndexError):
            continue
    return total / 1e9


def memory_bytes(pids: Iterable[int]) -> int:
    """Proportional set sizes: memory that several processes share is divided among them.

    Of a process that does not tell it, the resident size.
    """
    return sum(_pss_bytes(pid) for pid in pids)


def _pss_bytes(pid: int) -> int:
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0


def _tasks(pid: int) -> list[Path]:
    try:
        return list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return []
