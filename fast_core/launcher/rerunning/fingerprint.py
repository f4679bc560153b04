"""What the bits of a run depend on beside its configuration: versions, processor, numerics."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from fast_core.launcher.shown.versions import versions
from fast_core.system import threads

# Of the environment: which code paths libraries take, and how they split sums.
VARIABLES = (
    *(name for name in threads.ENVIRONMENT if name.endswith("_NUM_THREADS")),
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DYNAMIC",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
)
_FEATURES = ("sse", "ssse", "avx", "fma", "f16c", "amx", "asimd", "sve", "bf16")


def fingerprint() -> dict[str, str]:
    """It all by name; what is not there has no entry."""
    found = versions()
    del found["system"]  # of which only the mathematical functions matter
    found["libc"] = " ".join(platform.libc_ver())
    found["cpu features"] = _cpu_features()
    found["BLAS of numpy"] = threads.numpy_blas()
    for name in VARIABLES:
        found[name] = os.environ.get(name, threads.ENVIRONMENT.get(name, ""))
    return {name: value for name, value in found.items() if value}


def differences(recorded: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    """What is not the same, each as words."""
    return [
        _difference(name, recorded.get(name, ""), here.get(name, ""))
        for name in dict.fromkeys((*recorded, *here))
        if recorded.get(name, "") != here.get(name, "")
    ]


def _difference(name: str, recorded: str, here: str) -> str:
    if name == "cpu features":
        then, now = set(recorded.split()), set(here.split())
        lost, new = " ".join(sorted(then - now)), " ".join(sorted(now - then))
        changed = [f"no {lost}" if lost else "", f"{new} came" if new else ""]
        return f"{name} ({', '.join(filter(None, changed))})"
    return f"{name} (recorded with {recorded or 'none'}, here {here or 'none'})"


def _cpu_features() -> str:
    """Those that numerical libraries choose their code by."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return " ".join(sorted(f for f in set(value.split()) if f.startswith(_FEATURES)))
    return platform.machine()
