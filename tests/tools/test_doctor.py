import re
import resource
from pathlib import Path

import pytest

from fast_core.envs import making
from fast_core.system.extras import to_install
from fast_core.system.resources import Cores, Memory
from fast_core.tools.doctor import (
    VERSIONS,
    Finding,
    check_cores,
    check_cuda,
    check_descriptors,
    check_extension,
    check_memory,
    check_optional,
    check_python,
    check_shared_memory,
    check_threads,
    check_version,
    report,
)

GIB = 1 << 30


def test_enough_cores_are_fine() -> None:
    finding = check_cores(Cores(64, tuple(range(8)), 4.0, 5))
    assert finding.ok
    assert finding.value == "4 granted of 64 present (affinity 8, quota 4, allotment 5)"


@pytest.mark.parametrize(
    ("cores", "value"),
    [
        (Cores(8, (0,)), "env nodes 1 (at most one per shard) x 1, learner 1"),
        (
            Cores(8, (0, 2, 5)),
            "env nodes 3 (at most one per shard) x 1, learner 1, 3 where an update is large",
        ),
        (Cores(8, tuple(range(8)), 1.5), "env nodes 1 (at most one per shard) x 1, learner 1"),
        (
            Cores(64, tuple(range(64)), None, 5),
            "env nodes 5 (at most one per shard) x 1, learner 1, 5 where an update is large",
        ),
    ],
)
def test_division_of_the_cores_is_shown(
    cores: Cores, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RES-03, MH-03."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert check_threads(cores) == Finding("threads", value)


def test_nodes_with_many_threads_each_are_pointed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """RES-01."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert "unset it" in check_threads(Cores(2, (0, 1))).advice


@pytest.mark.parametrize(
    ("cores", "advice"),
    [(Cores(2, (0, 1), 0.5), "Raise the CPU quota"), (Cores(2, (1,)), "Grant 2 cores")],
)
def test_too_few_cores_are_pointed_out(cores: Cores, advice: str) -> None:
    assert advice in check_cores(cores).advice


def test_memory_is_shown_against_ram_and_limit() -> None:
    finding = check_memory(Memory(16 * GIB, 9 * GIB, 8 * GIB, 3 * GIB))
    assert finding == Finding("memory", "3.0 GiB available of 16.0 GiB RAM (limit 8.0 GiB)")
    assert (
        check_memory(Memory(None, None, None, None)).value
        == "unknown available of unknown RAM (no limit)"
    )


def test_little_memory_is_pointed_out() -> None:
    assert "raise the limit" in check_memory(Memory(16 * GIB, GIB // 2, None, None)).advice


def test_missing_shared_memory_folder_is_pointed_out(tmp_path: Path) -> None:
    assert "memfd" in check_shared_memory(tmp_path / "shm").advice


@pytest.mark.parametrize(("free_mib", "ok"), [(255, False), (256, True)])
def test_small_shared_memory_is_pointed_out(
    free_mib: int, ok: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Statvfs:
        f_frsize = 4096
        f_blocks = 1024 * 256
        f_bavail = free_mib * 256

    monkeypatch.setattr("os.statvfs", lambda folder: Statvfs)
    finding = check_shared_memory(tmp_path)
    assert finding.ok is ok
    assert finding.value == f"{free_mib} MiB free of 1.0 GiB in {tmp_path}"


@pytest.mark.parametrize(
    ("soft", "ok"), [(256, False), (512, True), (1 << 20, True), (resource.RLIM_INFINITY, True)]
)
def test_few_descriptors_are_pointed_out(soft: int, ok: bool) -> None:
    finding = check_descriptors(soft, resource.RLIM_INFINITY)
    assert finding.ok is ok
    assert finding.value.endswith("(hard limit unlimited)")


def test_old_python_is_pointed_out() -> None:
    assert check_python((3, 11, 0)).ok
    assert not check_python((3, 10, 9)).ok


@pytest.mark.parametrize(
    ("installed", "advice"),
    [
        ("2.4.0+cpu", ""),
        ("2.13.0", ""),
        ("3", ""),
        ("2.3.9", "Install 2.4 or newer."),
        (None, "Run `pip install 'torch>=2.4'`."),
    ],
)
def test_versions_are_compared_as_numbers(installed: str | None, advice: str) -> None:
    assert check_version("torch", (2, 4), installed).advice == advice


def test_extension_that_cannot_be_loaded_shows_why() -> None:
    def load() -> None:
        raise ImportError("build it with `pip install .`")

    assert check_extension(load).advice == "build it with `pip install .`"
    assert check_extension(lambda: None).ok


@pytest.mark.parametrize(
    ("probe", "has_gpu", "value", "advice"),
    [
        ({"build": "12.8", "devices": ["H100"]}, True, "12.8, 1 device(s): H100", ""),
        ({"build": None, "devices": []}, False, "no device", ""),
        ({"build": "12.8", "devices": []}, False, "no device", ""),
        ({"build": None, "devices": []}, True, "a CPU build", "Install a CUDA build"),
        ({"build": "12.8", "devices": []}, True, "can't use", "driver that supports CUDA 12.8"),
        ("OSError: libtorch", False, "can't be imported", "Reinstall torch: OSError: libtorch"),
    ],
)
def test_cuda_findings(
    probe: dict[str, object] | str, has_gpu: bool, value: str, advice: str
) -> None:
    finding = check_cuda(probe, has_gpu=has_gpu)
    assert value in finding.value
    assert (advice in finding.advice) if advice else finding.ok


def test_report_puts_advice_below_its_row_and_counts() -> None:
    text = report([Finding("cores", "2"), Finding("open files", "10", "Run `ulimit -n 4096`.")])
    assert text.splitlines() == [
        "ok    cores       2",
        "warn  open files  10",
        "                  -> Run `ulimit -n 4096`.",
        "1 to look at.",
    ]
    assert report([Finding("cores", "2")]).endswith("\nAll is well.")


def test_oldest_versions_agree_with_the_requirements() -> None:
    setup = (Path(__file__).parents[2] / "setup.py").read_text()
    required = dict(re.findall(r'"([\w-]+)(?:\[[\w-]+\])?>=([\d.]+)', setup))
    checked = {name: ".".join(map(str, oldest)) for name, oldest in VERSIONS if name in required}
    # Beside GOPS an older Gymnasium can be installed, with which nothing trains.
    assert required["gymnasium"] == "0.29"
    required["gymnasium"] = f"{making.OLDEST}.0"
    assert checked == {name: required[name] for name in checked}
    assert {"torch", "gymnasium"} <= checked.keys()


def test_missing_optional_module_is_no_fault_but_says_how_to_get_it() -> None:
    absent = check_optional("cv2", "Atari", "atari", present=False)
    assert absent.ok
    assert absent.value == f"not installed; needed for Atari: {to_install('atari')}"
    assert check_optional("cv2", "Atari", "x", present=True).value == "present, for Atari"
