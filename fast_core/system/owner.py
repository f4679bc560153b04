"""To which process something belongs that may outlive it, and the proof that it is dead.

A process id alone proves nothing: the kernel gives it to another process, every container counts
its own, and a folder may be shared between machines. Standard library only and quick to import.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_FIELDS = 5


class Owner(NamedTuple):
    """One process, told from every other one that ever was or will be.

    Attributes:
        machine: Name of the machine and its id.
        boot: Id of the machine's last start.
        spaces: The kernel's namespaces in which the next two are counted.
        pid: Process id.
        started: When the process was started, in ticks since the machine was.
    """

    machine: str
    boot: str
    spaces: str
    pid: int
    started: int

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        """What `str` made; None if it is something else."""
        words = text.split(" ")
        if len(words) != _FIELDS or not (words[3].isdecimal() and words[4].isdecimal()):
            return None
        return cls(words[0], words[1], words[2], int(words[3]), int(words[4]))


def this_process() -> Owner | None:
    """The calling process; None where nothing could ever be proven of it, as without ``/proc``."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):  # of another namespace
            return None
        spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("pid", "time")]
        started = _started(os.getpid())
        boot = _read("/proc/sys/kernel/random/boot_id")
    except OSError:
        return None
    if started is None:
        return None
    machine = f"{os.uname().nodename}/{_machine_id()}".replace(" ", "_")
    return Owner(machine, boot, ".".join(map(str, spaces)), os.getpid(), started)


def is_dead(owner: Owner, observer: Owner) -> bool:
    """Whether it is proven, for ``observer`` (the calling process), that ``owner`` is dead."""
    if owner.machine != observer.machine:
        return False
    if owner.boot != observer.boot:
        return True
    if owner.spaces != observer.spaces:
        return False
    try:
        started = _started(owner.pid)
        return _is_free(owner.pid) if started is None else started != owner.started
    except OSError:
        return False


def _is_free(pid: int) -> bool:
    """Whether no process has this number but one that has ended; ``/proc`` may hide some."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return os.path.exists(f"/proc/{pid}")


def _started(pid: int) -> int | None:
    """When a process was started; None if it is gone, reaped or not."""
    try:
        stat = _read(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # from the third on
    return None if fields[0] in "ZX" else int(fields[19])


def _machine_id() -> str:
    try:
        return _read("/etc/machine-id")
    except OSError:
        return ""


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip()
