"""How much memory this process may still take: RAM, its cgroup, and /dev/shm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
# cgroup v1 writes "no limit" as the largest page-aligned 63-bit number.
_NO_LIMIT_BYTES = 1 << 60


@dataclass(frozen=True)
class MemoryAvailable:
    """Bytes that can still be taken.

    Attributes:
        ram_bytes: Free and reclaimable RAM of the machine.
        cgroup_bytes: What the tightest memory limit above this process leaves, None without one.
        shm_bytes: Free space of the file system of POSIX shared memory, None where there is none.
    """

    ram_bytes: int
    cgroup_bytes: int | None
    shm_bytes: int | None


def memory_available(root: Path = Path("/")) -> MemoryAvailable:
    """Reads the kernel's figures below ``root`` (another root is for tests)."""
    return MemoryAvailable(
        ram_bytes=_ram_available(root),
        cgroup_bytes=_cgroup_available(root),
        shm_bytes=_file_system_available(root / "dev/shm"),
    )


def _ram_available(root: Path) -> int:
    for line in _read(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    # Not Linux: all of it, the best that can be known without a dependency.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _file_system_available(path: Path) -> int | None:
    try:
        figures = os.statvfs(path)
    except OSError:
        return None
    return figures.f_bavail * figures.f_frsize


def _cgroup_available(root: Path) -> int | None:
    """Smallest remainder over this process's cgroup and all above it: each limit binds."""
    left = [
        max(0, limit - used)
        for folder, limit_name, usage_name, cache_name in _cgroup_folders(root)
        if (limit := _limit(folder / limit_name)) is not None
        and (used := _usage(folder, usage_name, cache_name)) is not None
    ]
    return min(left, default=None)


def _cgroup_folders(root: Path) -> Iterator[tuple[Path, str, str, str]]:
    """Each folder whose limit may bind, with the names of its limit, usage and cache figures."""
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    v2 = ("memory.max", "memory.current", "inactive_file")
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield from ((folder, *v1) for folder in _upwards(root / "sys/fs/cgroup/memory", path))
        elif controllers == "":
            yield from ((folder, *v2) for folder in _upwards(root / "sys/fs/cgroup", path))


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    """The cgroup's folder and those above it. Containers may see only the mount itself."""
    folder = mount / path.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def _limit(file: Path) -> int | None:
    text = _read(file).strip()
    if not text.isdigit():
        return None  # "max", or no such file
    return None if int(text) >= _NO_LIMIT_BYTES else int(text)


def _usage(folder: Path, usage_name: str, cache_name: str) -> int | None:
    """Bytes in use without the file cache that the kernel gives back on demand."""
    text = _read(folder / usage_name).strip()
    if not text.isdigit():
        return None
    for line in _read(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == cache_name:
            return max(0, int(text) - int(value))
    return int(text)


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
