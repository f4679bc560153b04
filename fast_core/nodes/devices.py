"""Which torch devices a node can use."""

from __future__ import annotations

import importlib

from fast_core.errors import ConfigError


def check_device(device: str, key: str) -> None:
    """Try a torch device before anything is built on it.

    It is the first use of the device in a process: call it in a node, never before a fork.

    Args:
        device: What is configured.
        key: The configuration key that says so.

    Raises:
        ConfigError: There is no such device here.
    """
    torch = importlib.import_module("torch")
    try:
        torch.zeros(1, device=device)
    # torch reports a missing device as RuntimeError, AssertionError or NotImplementedError.
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"{key} must be a device that torch can use here ({', '.join(found_devices())}); got "
            f"{device!r}: {str(error).splitlines()[0]}. Use one of those, or see "
            "`fastloop doctor`."
        ) from error


def found_devices() -> list[str]:
    """Devices that torch finds: the CPU, and each GPU."""
    return ["cpu", *(f"cuda:{index}" for index in range(gpus()))]


def gpus() -> int:
    """How many GPUs torch finds."""
    return int(importlib.import_module("torch").cuda.device_count())


def replica_device(device: str, optimizers: int, rank: int) -> str:
    """The device of one of several optimizers: those on ``cuda`` are spread over all GPUs."""
    if device != "cuda" or optimizers == 1:
        return device
    return f"cuda:{rank % max(1, gpus())}"
