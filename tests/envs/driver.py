"""Drives a batch of environments and keeps everything it returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from fast_core.config import EnvironmentConfig
from fast_core.envs import EnvBatch
from fast_core.envs.masks import random_action
from fast_core.seeding import Role, stream


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


class Driver:
    """Steps ``batch``; ``obs`` ``[n + 1, B, ...]`` and the rest ``[n, B, ...]`` grow with it."""

    def __init__(self, batch: EnvBatch, envs: int, obs: Any = None) -> None:
        self.batch = batch
        self.envs = envs
        space = batch.spec.row
        first = np.zeros((envs, *space.shape), space.row_dtype)
        if obs is None:
            batch.reset(first)
        else:
            first[...] = obs
        self.obs = [first]
        self.reward: list[Any] = []
        self.terminated: list[Any] = []
        self.truncated: list[Any] = []
        self.final_obs: list[Any] = []
        self.quarantined: list[Any] = []

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
            quarantined = np.isin(np.arange(self.envs), list(self.batch.quarantined))
            self.quarantined.append(quarantined)
        return self

    def play(self, steps: int, seed: int = 0) -> Any:
        """Take random allowed actions; returns them, ``[steps, B, ...]``."""
        spec, generator = self.batch.spec, stream(seed, Role.ACTION_NOISE, 1)
        taken: list[Any] = []
        for _ in range(steps):
            obs = self.obs[-1]
            masks = [None] * self.envs if spec.action_mask is None else obs[spec.action_mask]
            actions = [random_action(spec.action, generator, mask) for mask in masks]
            self.run([np.array(actions)])
            taken += actions
        return _rows(taken, steps, self.envs)

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
