"""Seeds, and where networks are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int | None = None) -> int:
    chosen = random.randrange(2**32) if seed is None else int(seed)
    random.seed(chosen)
    np.random.seed(chosen)  # noqa: NPY002
    torch.manual_seed(chosen)
    return chosen


def set_seed(trainer_name: str, seed: int, offset: int, env: Any = None) -> tuple[int | None, Any]:
    """Of a process of its own, beside an environment's; in the trainer's the script seeded all."""
    apart = not trainer_name.endswith("serial_trainer")
    if apart:
        seed_everything(seed + offset)
    if env is not None:
        env.seed(seed + offset if apart else seed)
    return (seed + offset if apart else None), env


class ModuleOnDevice:
    def __init__(self, module: torch.nn.Module, device: str) -> None:
        self._module, self._device = module, device
        self._before = next(module.parameters()).device

    def __enter__(self) -> None:
        self._module.to(self._device)

    def __exit__(self, *error: object) -> None:
        self._module.to(self._before)
