from __future__ import annotations

from pathlib import Path

from fast_core.memory import memory_available

MEMINFO = "MemTotal: 100 kB\nMemFree: 7 kB\nMemAvailable: 64 kB\n"


def write_file(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def new_root(root: Path, cgroup: str) -> None:
    write_file(root, "proc/meminfo", MEMINFO)
    write_file(root, "proc/self/cgroup", cgroup)


def test_ram_is_what_the_kernel_calls_available(tmp_path: Path) -> None:
    new_root(tmp_path, "")
    available = memory_available(tmp_path)
    assert available.ram_bytes == 64 * 1024
    assert available.cgroup_bytes is None
    assert available.shm_bytes is None


def test_second_cgroup_version_leaves_limit_minus_usage_without_cache(tmp_path: Path) -> None:
    new_root(tmp_path, "0::/run/job\n")
    write_file(tmp_path, "sys/fs/cgroup/run/job/memory.max", "1000\n")
    write_file(tmp_path, "sys/fs/cgroup/run/job/memory.current", "700\n")
    write_file(tmp_path, "sys/fs/cgroup/run/job/memory.stat", "anon 5\ninactive_file 150\n")
    assert memory_available(tmp_path).cgroup_bytes == 450


def test_tightest_cgroup_above_the_process_counts(tmp_path: Path) -> None:
    new_root(tmp_path, "0::/run/job\n")
    for folder, limit, usage in [("run/job", "max", 10), ("run", "500", 200), (".", "9000", 10)]:
        write_file(tmp_path, f"sys/fs/cgroup/{folder}/memory.max", limit)
        write_file(tmp_path, f"sys/fs/cgroup/{folder}/memory.current", str(usage))
    assert memory_available(tmp_path).cgroup_bytes == 300


def test_first_cgroup_version_is_read_and_its_no_limit_known(tmp_path: Path) -> None:
    new_root(tmp_path, "5:cpu:/\n4:memory:/job\n0::/\n")
    base = "sys/fs/cgroup/memory"
    write_file(tmp_path, f"{base}/memory.limit_in_bytes", "9223372036854771712\n")
    write_file(tmp_path, f"{base}/memory.usage_in_bytes", "5\n")
    assert memory_available(tmp_path).cgroup_bytes is None
    write_file(tmp_path, f"{base}/job/memory.limit_in_bytes", "4096\n")
    write_file(tmp_path, f"{base}/job/memory.usage_in_bytes", "96\n")
    write_file(tmp_path, f"{base}/job/memory.stat", "total_inactive_file 6\n")
    assert memory_available(tmp_path).cgroup_bytes == 4006


def test_container_that_sees_only_its_mount_still_finds_the_limit(tmp_path: Path) -> None:
    new_root(tmp_path, "0::/docker/3f2a\n")
    write_file(tmp_path, "sys/fs/cgroup/memory.max", "2048")
    write_file(tmp_path, "sys/fs/cgroup/memory.current", "3000")
    assert memory_available(tmp_path).cgroup_bytes == 0


def test_this_machine_has_some_memory() -> None:
    assert memory_available().ram_bytes > 0
