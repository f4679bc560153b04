"""Vectorised forms of environments, as an author of one would register them."""

from __future__ import annotations

import ctypes
import importlib
import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig

PREFIX = "FastLoopTest/Vector-"


class Global(gymnasium.Env[Any, Any]):
    """Observes what the global generators of Python, NumPy and C draw, first when it is made."""

    def __init__(self) -> None:
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = Discrete(2)
        self.drawn = self.draw()

    def draw(self) -> Any:
        drawn = random.random(), np.random.random(), ctypes.CDLL(None).rand()  # noqa: NPY002
        return np.array(drawn)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return self.drawn, {}

    def step(self, action: Any) -> Any:
        return self.draw(), 0.0, False, False, {}


def in_processes(num_envs: int, **kwargs: Any) -> AsyncVectorEnv:
    """A ``vector_entry_point`` that steps each environment in a process of its own."""
    return AsyncVectorEnv([Global] * num_envs, **kwargs)


gymnasium.register("FastLoopTest/Global-v0", Global, vector_entry_point=in_processes)


def vectorised(make: Callable[..., Any]) -> Callable[..., SyncVectorEnv]:
    """A ``vector_entry_point`` that steps environments made by ``make`` in turn."""

    def entry_point(
        num_envs: int,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        **kwargs: Any,
    ) -> SyncVectorEnv:
        def one() -> Any:
            env = make(**kwargs)
            return env if max_episode_steps is None else TimeLimit(env, max_episode_steps)

        return SyncVectorEnv([one] * num_envs, autoreset_mode=autoreset_mode)

    return entry_point


def with_vector_form(id: str) -> str:
    """Register ``id`` once more, with a vectorised form; returns the new name."""
    spec = gymnasium.spec(id)
    name = PREFIX + id.rpartition("/")[2]
    if name not in gymnasium.registry:
        inner = spec.entry_point if callable(spec.entry_point) else None

        def make(**kwargs: Any) -> Any:
            if inner is not None:
                return inner(**{**spec.kwargs, **kwargs})
            return gymnasium.make(id, disable_env_checker=True, max_episode_steps=-1, **kwargs)

        gymnasium.register(
            name,
            entry_point=make,
            vector_entry_point=vectorised(make),
            max_episode_steps=spec.max_episode_steps,
        )
    return name


def as_vector(config: EnvironmentConfig, **kwargs: Any) -> EnvironmentConfig:
    """The same environment in a vectorised form of Gymnasium's, with more keywords of `make`."""
    for module in config.modules:
        importlib.import_module(module)
    id, more = with_vector_form(config.id), {**config.kwargs, **kwargs}
    return replace(config, backend="gymnasium_vector", id=id, kwargs=more)
