"""Toys, actions for batches of them, which `fast_core.testing.driver` drives, and evaluations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs import EnvBatch
from fast_core.envs.masks import random_action
from fast_core.envs.playing.runner import Runner
from fast_core.system.seeding import Role, stream
from fast_core.testing.driver import Driver as Driver
from fast_core.testing.driver import same as same


def toy(name: str, **settings: Any) -> EnvironmentConfig:
    """Configuration of a toy of these tests; keywords of `make` by ``kwargs``."""
    modules = ("tests.envs.toy", "tests.envs.space_toys")
    return EnvironmentConfig(id=f"FastLoopTest/{name}-v0", modules=modules, **settings)


def random_actions(batch: EnvBatch, envs: int, steps: int, seed: int = 0) -> Any:
    """Actions ``[steps, envs, ...]`` of the batch's action space."""
    space, generator = batch.spec.action, stream(seed, Role.ACTION_NOISE, 0)
    if space.kind == "discrete":
        return generator.integers(space.start, space.start + space.n, (steps, envs))
    if space.kind == "multi_discrete":
        return _rows([random_action(space, generator) for _ in range(steps * envs)], steps, envs)
    return generator.uniform(-1, 1, (steps, envs, *space.shape)).astype(space.dtype)


def _rows(actions: list[Any], steps: int, envs: int) -> Any:
    return np.array(actions).reshape(steps, envs, *actions[0].shape)


def lean(obs: Any, began: Any) -> Any:
    """Push the cart to the side the pole leans to."""
    return (obs[:, 2] > 0).astype(np.int64)


def ones(obs: Any, began: Any) -> Any:
    return np.ones(len(obs), np.int64)


def run(runner: Runner, act: Any = lean) -> Runner:
    """Play all its episodes."""
    while runner.step(act):
        pass
    return runner
