"""Whether computing in bfloat16 pays."""

from __future__ import annotations

import warnings

import torch


def warn_of_slow_bf16(device: torch.device, key: str) -> None:
    """Warn of a CPU that has no instructions for bfloat16; ``key`` is what asked for it."""
    if device.type == "cpu" and not cpu_has_bf16():
        warnings.warn(
            f"{key}: bf16 is slower than fp32 here: this CPU has no bfloat16 instructions "
            "(avx512_bf16 or amx_bf16). The run goes on; set it to fp32.",
            RuntimeWarning,
            stacklevel=3,
        )


def cpu_has_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 faster than float32."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in checks)
