"""How much memory a segment may still take: RAM, the control groups, and /dev/shm."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fast_core.system import resources


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

    def left(self, backing: str) -> int:
        """What the tightest of the limits on a segment of this backing leaves."""
        limits = [self.ram_bytes, self.cgroup_bytes]
        if backing == "posix":
            limits.append(self.shm_bytes)
        return min(limit for limit in limits if limit is not None)


def memory_available(root: Path = resources.ROOT) -> MemoryAvailable:
    """Reads the kernel's figures below ``root`` (another root is for tests)."""
    memory = resources.memory(root)
    # Not Linux: all of it, the best that can be known without a dependency.
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MemoryAvailable(
        ram_bytes=installed if memory.free_bytes is None else memory.free_bytes,
        cgroup_bytes=memory.limit_free_bytes,
        shm_bytes=_file_system_available(root / "dev/shm"),
    )


def _file_system_available(path: Path) -> int | None:
    try:
        figures = os.statvfs(path)
    except OSError:
        return None
    return figures.f_bavail * figures.f_frsize
