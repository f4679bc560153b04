from __future__ import annotations

from pathlib import Path

from fast_core.memory import memory_available


def write_file(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_figures_of_the_kernel_and_the_control_group_are_taken(tmp_path: Path) -> None:
    """How groups are found is tested with `fast_core.system.resources`."""
    write_file(tmp_path, "proc/meminfo", "MemTotal: 100 kB\nMemFree: 7 kB\nMemAvailable: 64 kB\n")
    write_file(tmp_path, "proc/self/cgroup", "0::/job\n")
    mount = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
    write_file(tmp_path, "proc/self/mountinfo", mount)
    write_file(tmp_path, "sys/fs/cgroup/job/memory.max", "1000\n")
    write_file(tmp_path, "sys/fs/cgroup/job/memory.current", "700\n")
    write_file(tmp_path, "sys/fs/cgroup/job/memory.stat", "anon 5\ninactive_file 150\n")
    available = memory_available(tmp_path)
    assert available.ram_bytes == 64 * 1024
    assert available.cgroup_bytes == 450
    assert available.shm_bytes is None


def test_unknown_ram_counts_as_all_that_is_installed(tmp_path: Path) -> None:
    assert memory_available(tmp_path).ram_bytes > memory_available().ram_bytes // 2
    assert memory_available(tmp_path).cgroup_bytes is None


def test_this_machine_has_some_memory() -> None:
    assert memory_available().ram_bytes > 0
    assert memory_available().shm_bytes is not None
