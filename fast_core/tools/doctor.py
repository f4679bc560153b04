"""`fastloop doctor`: what this machine offers a run, and what to change."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from fast_core.config import (
    AlgorithmConfig,
    EnvironmentConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
)
from fast_core.errors import ConfigError
from fast_core.launcher.sizing.budget import CoreBudget, core_budget
from fast_core.system import remains, resources
from fast_core.system.extras import DISTRIBUTION, to_install
from fast_core.system.threads import default_threads

_MIB = 1 << 20
_GIB = 1 << 30

# (distribution, oldest version that works)
VERSIONS = (
    (DISTRIBUTION, (0, 1)),
    ("torch", (2, 4)),
    ("numpy", (1, 26)),
    ("gymnasium", (1, 0)),
    ("pyzmq", (25,)),
    ("msgspec", (0, 18)),
)

# (module, what needs it, the extra that brings it); several distributions may bring a module
OPTIONAL = (
    ("ale_py", "Atari", "atari"),
    ("cv2", "Atari", "atari"),
    ("mujoco", "MuJoCo", "mujoco"),
    ("Box2D", "LunarLander and the like", "box2d"),
    ("envpool", "environment.backend: envpool", "envpool"),
    ("imageio_ffmpeg", "--video", "video"),
    ("onnx", "exports to ONNX", "onnx"),
    ("uvicorn", "the page", "dashboard"),
)

_PROBE = """
import json, torch
devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps({"build": torch.version.cuda, "devices": devices}))
"""
_PROBE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Finding:
    """One row of the report.

    Attributes:
        name: What was looked at.
        value: What was found.
        advice: What to change; empty when all is well.
    """

    name: str
    value: str
    advice: str = ""

    @property
    def ok(self) -> bool:
        """Whether nothing needs to change."""
        return not self.advice


def diagnose() -> list[Finding]:
    """Look at everything; takes as long as one import of torch, which a child process does."""
    cores = resources.cores()
    return [
        check_cores(cores),
        check_threads(cores),
        check_memory(resources.memory()),
        check_shared_memory(Path("/dev/shm")),
        check_descriptors(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        check_python(sys.version_info[:3]),
        *(check_version(name, oldest, _installed(name)) for name, oldest in VERSIONS),
        *(check_optional(*each, present=find_spec(each[0]) is not None) for each in OPTIONAL),
        check_extension(_import_memory),
        check_private_folder(),
        check_remains(),
        check_cuda(_probe_torch(), has_gpu=Path("/dev/nvidia0").exists()),
    ]


def report(findings: list[Finding]) -> str:
    """Lay the findings out as lines of text, each advice below its row."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        state = "ok  " if finding.ok else "warn"
        lines.append(f"{state}  {finding.name:<{width}}  {finding.value}")
        if finding.advice:
            lines.append(f"{'':<{width + 8}}-> {finding.advice}")
    count = sum(not finding.ok for finding in findings)
    lines.append(f"{count} to look at." if count else "All is well.")
    return "\n".join(lines)


def check_cores(cores: resources.Cores) -> Finding:
    """Cores granted against cores present, and what limits them."""
    advice = ""
    if cores.quota is not None and cores.quota < 1:
        advice = "Raise the CPU quota to 1 or more; below that every node is stopped part-time."
    elif cores.granted == 1:
        advice = "Grant 2 cores or more, so that collecting and learning overlap."
    value = f"{cores.granted} granted of {cores.present} present ({cores.limits})"
    return Finding("cores", value, advice)


def check_threads(cores: resources.Cores) -> Finding:
    """How a run that leaves the numbers to FastLoop divides the cores granted."""
    small, large = (_default_budget(cores.granted, flops) for flops in (0.0, float("1e15")))
    learner = str(small.learner_threads)
    if large.learner_threads != small.learner_threads:
        learner += f", {large.learner_threads} where an update is large"
    value = (
        f"env nodes {small.env_nodes} (at most one per shard) x {small.env_threads}, "
        f"learner {learner}"
    )
    advice = ""
    if small.env_threads > 1:
        advice = (
            f"OMP_NUM_THREADS is {small.env_threads}, and every node takes it; unset it, so that "
            "env nodes compute on one thread each."
        )
    return Finding("threads", value, advice)


def _default_budget(granted: int, update_flops: float) -> CoreBudget:
    config = RunConfig(
        name="doctor",
        environment=EnvironmentConfig(id="any"),
        rollout=RolloutConfig(shards=granted),
        algorithm=AlgorithmConfig(name="any"),
        stop=StopConfig(env_steps=1),
    )
    threads = default_threads()
    return core_budget(config, granted, update_flops=update_flops, node_threads=threads)


def check_memory(memory: resources.Memory) -> Finding:
    """RAM and the control group's limit."""
    limit = "no limit" if memory.limit_bytes is None else f"limit {_size(memory.limit_bytes)}"
    value = (
        f"{_size(memory.available_bytes)} available of {_size(memory.total_bytes)} RAM ({limit})"
    )
    short = memory.available_bytes is not None and memory.available_bytes < _GIB
    advice = "Free memory or raise the limit; a learner that imports torch takes 0.3 GiB."
    return Finding("memory", value, advice if short else "")


def check_shared_memory(folder: Path) -> Finding:
    """Size of the file system behind POSIX shared memory."""
    try:
        found = os.statvfs(folder)
    except OSError:
        advice = "Set memory.backing to memfd, or mount a tmpfs there."
        return Finding("shared memory", f"there is no {folder}", advice)
    size, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    advice = (
        "Enlarge it (docker run --shm-size=2g), or leave memory.backing at auto, which takes "
        "memfd where this is too small."
    )
    value = f"{_size(free)} free of {_size(size)} in {folder}"
    return Finding("shared memory", value, advice if free < 256 * _MIB else "")


def check_descriptors(soft: int, hard: int) -> Finding:
    """Limit on open files of one process."""
    names = [
        "unlimited" if limit == resource.RLIM_INFINITY else str(limit) for limit in (soft, hard)
    ]
    few = soft != resource.RLIM_INFINITY and soft < 512
    advice = "Run `ulimit -n 4096`; if the hard limit forbids it, raise that first."
    return Finding("open files", f"{names[0]} (hard limit {names[1]})", advice if few else "")


def check_python(version: tuple[int, int, int]) -> Finding:
    """Version of the interpreter."""
    advice = "" if version >= (3, 11) else "Install Python 3.11 or newer."
    return Finding("python", ".".join(map(str, version)), advice)


def check_optional(module: str, use: str, extra: str, *, present: bool) -> Finding:
    """Whether an optional module is there; without it nothing is wrong."""
    absent = f"not installed; needed for {use}: {to_install(extra)}"
    return Finding(module, f"present, for {use}" if present else absent)


def check_version(name: str, oldest: tuple[int, ...], installed: str | None) -> Finding:
    """Version of one installed distribution."""
    needed = ".".join(map(str, oldest))
    if installed is None:
        advice = f"Run `pip install '{name}>={needed}'`."
        return Finding(
            name, "not installed", "Run `pip install .`." if name == DISTRIBUTION else advice
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", installed)[: len(oldest)])
    return Finding(name, installed, "" if numbers >= oldest else f"Install {needed} or newer.")


def check_extension(load: Callable[[], None]) -> Finding:
    """Whether the native extension is built and can be loaded; ``load`` imports it."""
    try:
        load()
    except ImportError as error:
        return Finding("C++ extension", "can't be loaded", str(error))
    return Finding("C++ extension", "present")


def check_private_folder() -> Finding:
    """Where the sockets of a run go."""
    try:
        return Finding("sockets", f"in {os.path.dirname(remains.new_path())}")
    except ConfigError as error:
        return Finding("sockets", "have no place", str(error))


def check_remains() -> Finding:
    """What runs have left that were killed with their watchdogs; it is removed."""
    done = remains.reclaim()
    return Finding("dead runs", "; ".join(done) if done else "have left nothing")


def check_cuda(probe: dict[str, object] | str, *, has_gpu: bool) -> Finding:
    """What torch can compute on; ``probe`` is what a child reported, or why it could not."""
    if isinstance(probe, str):
        return Finding("CUDA", "torch can't be imported", f"Reinstall torch: {probe}")
    build, devices = probe["build"], probe["devices"]
    if isinstance(devices, list) and devices:
        return Finding("CUDA", f"{build}, {len(devices)} device(s): {', '.join(map(str, devices))}")
    if not has_gpu:
        return Finding("CUDA", "no device; nodes.optimizer.device must be cpu")
    if build is None:
        return Finding("CUDA", "a GPU, but torch is a CPU build", "Install a CUDA build of torch.")
    advice = f"Install a driver that supports CUDA {build}, or give this container the device."
    return Finding("CUDA", "a GPU that torch can't use", advice)


def _probe_torch() -> dict[str, object] | str:
    # A child, because torch stays out of this process: what is instant must remain so.
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
        return found
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return lines[-1] if lines else f"exit status {error.returncode}"
    except subprocess.TimeoutExpired:
        return f"importing it took more than {_PROBE_TIMEOUT_S:g} s"
    except (OSError, ValueError, IndexError) as error:
        return str(error)


def _import_memory() -> None:
    import fast_core.memory  # noqa: F401


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _size(nbytes: int | None) -> str:
    if nbytes is None:
        return "unknown"
    return f"{nbytes / _GIB:.1f} GiB" if nbytes >= _GIB else f"{nbytes / _MIB:.0f} MiB"
