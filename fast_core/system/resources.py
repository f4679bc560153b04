"""What this process may really use: cores and memory, not what the machine has.

Inside containers and batch jobs the machine's own numbers are wrong in both directions. Asked
here are the affinity mask, the CPU quota and memory limit of every control group above this
process (versions 1 and 2, also mixed), and what a batch system said it allotted. Whatever can't
be read does not limit; nothing here raises, and nothing imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")

# Slurm, Grid Engine and LSF; most confine the job by affinity as well, but not everywhere.
_ALLOTMENTS = ("SLURM_CPUS_PER_TASK", "NSLOTS", "LSB_DJOB_NUMPROC")

# Version 1 writes "no limit" as the largest number of pages; nobody means an exbibyte.
_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True)
class Cores:
    """Cores of this process.

    Attributes:
        present: Cores of the machine.
        ids: Cores that the affinity mask allows; numbers need not be contiguous.
        quota: Cores that control groups pay for, possibly a fraction; None without a quota.
        allotment: Cores that the batch system allotted, or None.
    """

    present: int
    ids: tuple[int, ...]
    quota: float | None = None
    allotment: int | None = None

    @property
    def granted(self) -> int:
        """Processes or threads that can compute all the time, at least 1.

        A quota is rounded down: the whole group is stopped for the rest of each period once it
        is spent, so one process too many slows down all of them.
        """
        limits = [len(self.ids)]
        if self.quota is not None:
            limits.append(int(self.quota))
        if self.allotment is not None:
            limits.append(self.allotment)
        return max(1, min(limits))

    @property
    def limits(self) -> str:
        """What limits them, in words: ``affinity 8, quota 4, allotment 5``."""
        words = [f"affinity {len(self.ids)}"]
        words.append("no quota" if self.quota is None else f"quota {self.quota:g}")
        if self.allotment is not None:
            words.append(f"allotment {self.allotment}")
        return ", ".join(words)


@dataclass(frozen=True)
class Memory:
    """Memory of this process, in bytes; None for what is unknown or not limited.

    Attributes:
        total_bytes: RAM of the machine.
        free_bytes: Free and reclaimable RAM of the machine.
        limit_bytes: Lowest limit of the control groups.
        limit_free_bytes: Least that any control group's limit leaves.
    """

    total_bytes: int | None
    free_bytes: int | None
    limit_bytes: int | None
    limit_free_bytes: int | None

    @property
    def available_bytes(self) -> int | None:
        """What can be taken before the machine or a control group runs out."""
        known = [free for free in (self.free_bytes, self.limit_free_bytes) if free is not None]
        return min(known, default=None)


def cores(root: Path = ROOT, environ: Mapping[str, str] = os.environ) -> Cores:
    """Find out which cores this process may use; ``root`` is where /proc and /sys are."""
    present = os.cpu_count() or 1
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(present)
    quotas = [quota for group in _groups(root, "cpu") if (quota := _quota(group)) is not None]
    allotted = [int(text) for name in _ALLOTMENTS if (text := environ.get(name, "")).isdecimal()]
    return Cores(
        present=max(present, len(allowed)),
        ids=tuple(sorted(allowed)),
        quota=min(quotas, default=None),
        allotment=min((count for count in allotted if count > 0), default=None),
    )


def memory(root: Path = ROOT) -> Memory:
    """Find out how much memory this process may use; ``root`` is where /proc and /sys are."""
    machine = _meminfo(root)
    groups = [found for group in _groups(root, "memory") if (found := _memory_group(group))]
    return Memory(
        total_bytes=machine.get("MemTotal"),
        free_bytes=machine.get("MemAvailable"),
        limit_bytes=min((limit for limit, _ in groups), default=None),
        limit_free_bytes=min((max(0, limit - used) for limit, used in groups), default=None),
    )


def oom_kills(root: Path = ROOT) -> int | None:
    """Processes of this control group that the kernel killed for lack of memory, if known.

    Only the group itself is asked: its count holds kills for the limits above it too, while
    theirs hold kills of other groups.
    """
    for group in _groups(root, "memory"):
        for name in ("memory.events", "memory.oom_control"):
            count = dict(_pairs(_text(group / name))).get("oom_kill")
            if count is not None:
                return count
    return None


def _quota(group: Path) -> float | None:
    """Cores that one control group pays for."""
    words = (_text(group / "cpu.max") or "").split()
    if len(words) != 2:
        names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        words = [(_text(group / name) or "").strip() for name in names]
    if not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None  # "max", -1, or no such file
    return int(words[0]) / int(words[1])


def _memory_group(group: Path) -> tuple[int, int] | None:
    """Limit of one control group and what can't be taken back from it, in bytes."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit = _number(group / limit_name)
        if limit is not None and limit < _UNLIMITED_BYTES:
            # Pages of files that nobody used lately count as used but are dropped on demand.
            stat = dict(_pairs(_text(group / "memory.stat")))
            cache = stat.get("total_inactive_file", stat.get("inactive_file", 0))
            return limit, max(0, (_number(group / used_name) or 0) - cache)
    return None


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the control groups that may limit ``controller``, this process's own first."""
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        for mounted, mount in _mounts(root, controller if controllers else ""):
            inside = path.removeprefix(mounted.rstrip("/")).strip("/")
            # A path that leaves the mount belongs to another namespace: only its top is ours.
            names = (
                [] if ".." in inside.split("/") else [name for name in inside.split("/") if name]
            )
            for depth in range(len(names), -1, -1):
                yield mount.joinpath(*names[:depth])


def _mounts(root: Path, controller: str) -> Iterator[tuple[str, Path]]:
    """Mounts of version 2, or of a version 1 controller: (path of the group at its top, folder)."""
    for line in (_text(root / "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) < 5 or len(kinds) < 3:
            continue
        version_1 = kinds[0] == "cgroup" and controller in kinds[2].split(",")
        if version_1 if controller else kinds[0] == "cgroup2":
            yield fields[3], root / fields[4].replace("\\040", " ").lstrip("/")


def _meminfo(root: Path) -> dict[str, int]:
    text = (_text(root / "proc/meminfo") or "").replace(":", " ").replace(" kB", "")
    return {name: kibibytes * 1024 for name, kibibytes in _pairs(text)}


def _pairs(text: str | None) -> Iterator[tuple[str, int]]:
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[1].isdecimal():
            yield words[0], int(words[1])


def _number(path: Path) -> int | None:
    text = (_text(path) or "").strip()
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
