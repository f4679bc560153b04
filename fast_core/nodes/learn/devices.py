"""Which torch devices a node can use."""

from __future__ import annotations

import importlib

from fast_core.config import OptimizerNodeConfig
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
        cause = str(error).splitlines()[0].partition(". ")[0].removesuffix(".")
        advice = "Use one of those, or see `fastloop doctor`."
        if cause.startswith("Expected one of"):  # and each kind that torch has a name for
            cause = "torch has no such kind of device"
            advice = "A GPU of NVIDIA's or AMD's is 'cuda'." if "gpu" in device else advice
        raise ConfigError(
            f"{key} must be a device that torch can use here ({', '.join(found_devices())}); got "
            f"{device!r}: {cause}. {advice}"
        ) from error


def check_devices(optimizer: OptimizerNodeConfig, policy_device: str) -> None:
    """Try everything that a run needs of the devices; the CPU needs no trying, and no torch.

    Raises:
        ConfigError: As `check_device` and `check_nccl`.
    """
    if optimizer.device != "cpu":
        check_device(optimizer.device, "nodes.optimizer.device")
    if policy_device != "cpu":
        check_device(policy_device, "nodes.policy.device")
    if optimizer.count > 1 and optimizer.collective == "nccl":
        check_nccl(optimizer)


def check_nccl(optimizer: OptimizerNodeConfig) -> None:
    """NCCL needs a GPU for each optimizer: it refuses to share one.

    Raises:
        ConfigError: There are too few.
    """
    if not own_gpus(optimizer):
        raise ConfigError(
            "nodes.optimizer.collective nccl needs nodes.optimizer.device cuda and a GPU for each "
            f"of the {optimizer.count} optimizers (nodes.optimizer.count); got device "
            f"{optimizer.device!r} and {gpus()} GPUs. Use shared, or fewer optimizers."
        )


def own_gpus(optimizer: OptimizerNodeConfig) -> bool:
    """Whether every optimizer has a GPU of its own."""
    return optimizer.device == "cuda" and gpus() >= optimizer.count


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
