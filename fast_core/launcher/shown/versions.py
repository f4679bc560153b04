"""What a part of a run was made with: ``versions.json`` in its directory."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
from datetime import datetime
from pathlib import Path

import msgspec

from fast_core.launcher.processes.tree import git_commit
from fast_core.monitor.run_directory import RunDirectory
from fast_core.system import installed
from fast_core.system.decoding import from_json
from fast_core.system.durable import write_durably
from fast_core.system.importing import began_in

# Simulators too; what is not installed is left out.
DISTRIBUTIONS = (
    "torch",
    "numpy",
    "gymnasium",
    "ale-py",
    "opencv-python-headless",
    "mujoco",
    "envpool",
)


def write_versions(run: RunDirectory, now: datetime) -> None:
    """Add the versions of this part of a run, unless the part before it had the same ones.

    ``modules_in`` are the folders in which modules were found besides what is installed, one on
    each line.

    It takes some 20 ms: call it while others are waited for.
    """
    before: list[dict[str, str]] = []
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        before = from_json(run.versions.read_bytes(), list[dict[str, str]])
    this = versions() | {"modules_in": "\n".join(began_in())}
    if before and {**before[-1], "since": ""} == {"since": "", **this}:
        return
    this = {"since": now.isoformat(timespec="seconds"), **this}
    text = json.dumps([*before, this], indent=2)
    with contextlib.suppress(OSError):  # training is worth more than this file
        write_durably(run.versions, text.encode())


def versions() -> dict[str, str]:
    """Versions by name, the commit of FastLoop if it lies in a checkout, and the processor."""
    found = {"fastloop": installed.VERSION}
    if commit := git_commit(Path(installed.FOLDER).parent):
        found["commit"] = commit
    found["python"] = platform.python_version()
    for name in DISTRIBUTIONS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found | {"system": platform.platform(), "cpu": _processor()}


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
