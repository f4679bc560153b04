"""Trainers by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gops.trainer.off_serial_trainer import OffSerialTrainer
from gops.trainer.on_serial_trainer import OnSerialTrainer

_KINDS: dict[str, Callable[..., Any]] = {
    "off_serial_trainer": OffSerialTrainer,
    "on_serial_trainer": OnSerialTrainer,
}


def register(trainer: str, entry_point: Callable[..., Any]) -> None:
    _KINDS[trainer] = entry_point


def create_trainer(alg: Any, sampler: Any, buffer: Any, evaluator: Any, **kwargs: Any) -> Any:
    parts = (alg, sampler, buffer, evaluator)
    if kwargs["trainer"].startswith("on"):
        parts = (alg, sampler, evaluator)
    return _KINDS[kwargs["trainer"]](*parts, **kwargs)
