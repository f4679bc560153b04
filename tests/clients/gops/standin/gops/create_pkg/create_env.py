"""Environments by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gops.env.old_gym import Broken, Drift

_OWN: dict[str, Callable[..., Any]] = {"drift": Drift, "broken": Broken}


def register(env_id: str, entry_point: Callable[..., Any]) -> None:
    _OWN[env_id] = entry_point


def create_env(env_id: str, **kwargs: Any) -> Any:
    return _OWN[env_id](**kwargs)
