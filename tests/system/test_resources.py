import os
from pathlib import Path

import pytest

from fast_core.system.resources import Cores, Memory, cores, memory, oom_kills

V2 = "31 23 0:28 {top} /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "32 31 0:29 {top} /sys/fs/cgroup/{name} rw shared:10 - cgroup cgroup rw,{name}\n"
UNLIMITED_V1 = "9223372036854771712\n"
GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def v2(root: Path, files: dict[str, str], *, group: str = "/", top: str = "/") -> Path:
    system = {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    proc = {"proc/self/cgroup": f"0::{group}\n", "proc/self/mountinfo": V2.format(top=top)}
    return write(root, proc | system)


def v1(root: Path, name: str, files: dict[str, str], *, group: str = "/", top: str = "/") -> Path:
    system = {f"sys/fs/cgroup/{name}/{file}": text for file, text in files.items()}
    proc = {
        "proc/self/cgroup": f"9:name=systemd:/\n4:{name}:{group}\n0::/\n",
        "proc/self/mountinfo": V1.format(name=name, top=top)
        + V2.format(top="/").replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
    }
    return write(root, proc | system)


@pytest.mark.parametrize(
    ("ids", "quota", "allotment", "granted"),
    [
        # Odd core layouts are no error: cores are counted, never assumed contiguous (RES-03).
        ((0,), None, None, 1),
        ((0, 2, 5), None, None, 3),
        ((1, 2, 3), None, None, 3),
        ((0, 1, 2, 3), 1.9, None, 1),
        ((0, 1, 2, 3), 2.0, None, 2),
        ((0, 1), 8.0, None, 2),
        ((0, 1), 0.25, None, 1),
        (tuple(range(64)), None, 5, 5),
        (tuple(range(64)), 4.5, 5, 4),
    ],
)
def test_granted_cores_are_the_lowest_limit(
    ids: tuple[int, ...], quota: float | None, allotment: int | None, granted: int
) -> None:
    assert Cores(64, ids, quota, allotment).granted == granted


def test_affinity_is_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {5, 0, 2})
    monkeypatch.setattr(os, "cpu_count", lambda: 2)  # a container may see fewer than it may use
    assert cores(tmp_path, {}) == Cores(present=3, ids=(0, 2, 5))


def test_without_affinity_masks_all_cores_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores(tmp_path, {}) == Cores(present=3, ids=(0, 1, 2))


@pytest.mark.parametrize("name", ["SLURM_CPUS_PER_TASK", "NSLOTS", "LSB_DJOB_NUMPROC"])
def test_allotment_of_a_batch_system_is_respected(name: str, tmp_path: Path) -> None:
    assert cores(tmp_path, {name: "5"}).allotment == 5


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "2(x3)"])
def test_allotment_that_is_no_number_does_not_limit(text: str, tmp_path: Path) -> None:
    assert cores(tmp_path, {"SLURM_CPUS_PER_TASK": text}).allotment is None


def test_quota_of_version_2(tmp_path: Path) -> None:
    assert cores(v2(tmp_path, {"cpu.max": "150000 100000\n"}), {}).quota == 1.5


def test_quota_max_does_not_limit(tmp_path: Path) -> None:
    assert cores(v2(tmp_path, {"cpu.max": "max 100000\n"}), {}).quota is None


def test_lowest_quota_of_all_groups_above_counts(tmp_path: Path) -> None:
    files = {
        "cpu.max": "800000 100000",
        "a/cpu.max": "200000 100000",
        "a/b/cpu.max": "400000 100000",
        "a/other/cpu.max": "100000 100000",
    }
    assert cores(v2(tmp_path, files, group="/a/b"), {}).quota == 2.0


def test_quota_of_version_1(tmp_path: Path) -> None:
    files = {"job/cpu.cfs_quota_us": "250000\n", "job/cpu.cfs_period_us": "100000\n"}
    assert cores(v1(tmp_path, "cpu", files, group="/job"), {}).quota == 2.5


def test_quota_minus_one_does_not_limit(tmp_path: Path) -> None:
    files = {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}
    assert cores(v1(tmp_path, "cpu", files), {}).quota is None


def test_quota_without_period_does_not_limit(tmp_path: Path) -> None:
    files = {"cpu.cfs_quota_us": "100000\n", "cpu.cfs_period_us": "0\n"}
    assert cores(v1(tmp_path, "cpu", files), {}).quota is None


def test_limits_are_found_where_a_container_mounts_its_own_group(tmp_path: Path) -> None:
    # Docker with version 1: the path is the host's, the mount begins at the container.
    files = {"job/cpu.cfs_quota_us": "300000", "job/cpu.cfs_period_us": "100000"}
    root = v1(tmp_path, "cpu", files, group="/docker/abc/job", top="/docker/abc")
    assert cores(root, {}).quota == 3.0


def test_path_outside_the_namespace_counts_the_top_of_the_mount_only(tmp_path: Path) -> None:
    root = v2(tmp_path, {"cpu.max": "200000 100000"}, group="/../../other")
    write(tmp_path, {"sys/other/cpu.max": "100000 100000"})
    assert cores(root, {}).quota == 2.0


def test_memory_without_limit(tmp_path: Path) -> None:
    root = v2(tmp_path, {"memory.max": "max\n", "memory.current": "5\n"})
    write(root, {"proc/meminfo": "MemTotal:  4 kB\nMemFree: 1 kB\nMemAvailable:   3 kB\n"})
    assert memory(root) == Memory(4096, 3072, None, None)


def test_memory_limit_of_version_2_leaves_out_what_can_be_dropped(tmp_path: Path) -> None:
    files = {
        "memory.max": f"{8 * GIB}\n",
        "memory.current": f"{5 * GIB}\n",
        "memory.stat": f"anon 7\ninactive_file {2 * GIB}\n",
    }
    root = write(v2(tmp_path, files), {"proc/meminfo": f"MemAvailable: {64 << 20} kB\n"})
    assert memory(root) == Memory(None, 64 * GIB, 8 * GIB, 5 * GIB)
    assert memory(root).available_bytes == 5 * GIB


def test_lowest_memory_limit_and_least_room_may_be_of_different_groups(tmp_path: Path) -> None:
    files = {
        "memory.max": f"{8 * GIB}",
        "memory.current": f"{7 * GIB}",
        "a/memory.max": f"{4 * GIB}",
        "a/memory.current": f"{1 * GIB}",
    }
    assert memory(v2(tmp_path, files, group="/a")) == Memory(None, None, 4 * GIB, GIB)


def test_memory_limit_of_version_1(tmp_path: Path) -> None:
    files = {
        "memory.limit_in_bytes": f"{2 * GIB}\n",
        "memory.usage_in_bytes": f"{3 * GIB}\n",
        "memory.stat": "total_inactive_file 0\n",
    }
    assert memory(v1(tmp_path, "memory", files)) == Memory(None, None, 2 * GIB, 0)


def test_unlimited_memory_of_version_1_does_not_limit(tmp_path: Path) -> None:
    files = {"memory.limit_in_bytes": UNLIMITED_V1, "memory.usage_in_bytes": "5\n"}
    assert memory(v1(tmp_path, "memory", files)) == Memory(None, None, None, None)


def test_oom_kills_are_those_of_the_own_group(tmp_path: Path) -> None:
    files = {"memory.events": "oom 9\noom_kill 9\n", "a/memory.events": "oom 3\noom_kill 2\n"}
    assert oom_kills(v2(tmp_path, files, group="/a")) == 2


def test_oom_kills_of_version_1(tmp_path: Path) -> None:
    files = {"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}
    assert oom_kills(v1(tmp_path, "memory", files)) == 4


def test_oom_kills_are_unknown_where_nothing_counts_them(tmp_path: Path) -> None:
    assert oom_kills(tmp_path) is None


def test_nothing_readable_limits_nothing(tmp_path: Path) -> None:
    assert cores(tmp_path, {}).quota is None
    assert memory(tmp_path) == Memory(None, None, None, None)


def test_damaged_files_limit_nothing(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "x\n\n0:\n:::::\n4:cpu:/\n0::/\n",
            "proc/self/mountinfo": "1 2\n - \n1 2 3 / /sys - cgroup\n" + V2.format(top="/"),
            "proc/meminfo": "MemTotal: lots kB\nMemAvailable\n",
            "sys/fs/cgroup/cpu.max": "a b\n",
            "sys/fs/cgroup/memory.max": "-5\n",
        },
    )
    assert cores(root, {}).quota is None
    assert memory(root) == Memory(None, None, None, None)


def test_this_machine_grants_something() -> None:
    assert 1 <= cores().granted <= cores().present
    assert memory().available_bytes
