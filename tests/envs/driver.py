"""Drives a batch of environments and keeps everything it returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs import EnvBatch
from fast_core.seeding import Role, stream


def toy(name: str, **settings: Any) -> EnvironmentConfig:
    """Configuration of an environment of `tests.envs.toy`; keywords of `make` by ``kwargs``."""
    return EnvironmentConfig(id=f"FastLoopTest/{name}-v0", modules=("tests.envs.toy",), **settings)


def random_actions(batch: EnvBatch, envs: int, steps: int, seed: int = 0) -> Any:
    """Actions ``[steps, envs, ...]`` of the batch's action space."""
    space, generator = batch.spec.action, stream(seed, Role.ACTION_NOISE, 0)
    if space.kind == "discrete":
        return generator.integers(space.start, space.start + space.n, (steps, envs))
    return generator.uniform(-1, 1, (steps, envs, *space.shape)).astype(space.dtype)


class Driver:
    """Steps ``batch``; ``obs`` ``[n + 1, B, ...]`` and the rest ``[n, B, ...]`` grow with it."""

    def __init__(self, batch: EnvBatch, envs: int, obs: Any = None) -> None:
        self.batch = batch
        self.envs = envs
        space = batch.spec.observation
        first = np.zeros((envs, *space.shape), space.dtype)
        if obs is None:
            batch.reset(first)
        else:
            first[...] = obs
        self.obs = [first]
        self.reward: list[Any] = []
        self.terminated: list[Any] = []
        self.truncated: list[Any] = []
        self.final_obs: list[Any] = []

    def run(self, actions: Any) -> Driver:
        for action in actions:
            next_obs = np.full_like(self.obs[0], 99)
            final_obs = np.full_like(self.obs[0], 99)
            reward = np.full(self.envs, 99, np.float32)
            terminated = np.ones(self.envs, np.bool_)
            truncated = np.ones(self.envs, np.bool_)
            given = action.copy()
            self.batch.step(
                given,
                next_obs=next_obs,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                final_obs=final_obs,
            )
            assert (given == action).all()
            given[...] = 0  # the caller's memory is used again
            self.obs.append(next_obs)
            self.reward.append(reward)
            self.terminated.append(terminated)
            self.truncated.append(truncated)
            self.final_obs.append(final_obs)
        return self

    @property
    def ended(self) -> Any:
        """Where an episode ended, ``[n, B]``."""
        return np.array(self.terminated) | np.array(self.truncated)

    def columns(self) -> list[Any]:
        """Everything as arrays; final observations only where they are valid."""
        final = np.array(self.final_obs)[self.ended]
        parts = (self.obs, self.reward, self.terminated, self.truncated, final)
        return [np.array(part) for part in parts]


def same(one: Driver, other: Driver) -> bool:
    """Whether two drivers saw exactly the same."""
    return all(
        a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(one.columns(), other.columns(), strict=True)
    )
