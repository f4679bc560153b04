"""Drives a batch of environments and keeps everything it returned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from fast_core.envs import EnvBatch
from fast_core.envs.masks import random_action
from fast_core.errors import ContractBroken
from fast_core.system.seeding import Role, stream

UNTOUCHED = 99  # what arrays hold that a step has to write


class Step(NamedTuple):
    """What came of a step: reward, whether it terminated or was truncated, its true successor."""

    reward: Any
    ends: list[bool]
    after: Any


class Driver:
    """Steps ``batch``; ``obs`` ``[n + 1, B, ...]`` and the rest ``[n, B, ...]`` grow with it."""

    def __init__(self, batch: EnvBatch, envs: int, obs: Any = None) -> None:
        """Begin with a reset, or go on from ``obs``."""
        self.batch = batch
        self.envs = envs
        space = batch.spec.row
        first: Any = np.zeros((envs, *space.shape), space.row_dtype)
        if obs is None:
            batch.reset(first)
        else:
            first[...] = obs
        self.obs = [first]
        self.reward, self.terminated, self.truncated, self.final_obs, self.quarantined = (
            list[Any]() for _ in range(5)
        )

    def run(self, actions: Iterable[Any]) -> Driver:
        """Take these actions, ``[B, ...]`` each."""
        for action in actions:
            came: dict[str, Any] = {
                "reward": np.full(self.envs, UNTOUCHED, np.float32),
                "terminated": np.ones(self.envs, np.bool_),
                "truncated": np.ones(self.envs, np.bool_),
                "final_obs": np.full_like(self.obs[0], UNTOUCHED),
            }
            self.obs.append(np.full_like(self.obs[0], UNTOUCHED))
            given = action.copy()
            self.batch.step(given, next_obs=self.obs[-1], **came)
            if not (given == action).all():
                raise ContractBroken(
                    f"{self.batch.spec.id}: step must not change the actions it is given; got "
                    f"{given.tolist()} for {action.tolist()}. Copy them."
                )
            given[...] = 0  # the caller's memory is used again
            came["quarantined"] = np.isin(np.arange(self.envs), list(self.batch.quarantined))
            for name, values in came.items():
                getattr(self, name).append(values)
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
        return np.array(taken).reshape(steps, self.envs, *taken[0].shape)

    @property
    def ended(self) -> Any:
        """Where an episode ended, ``[n, B]``."""
        return np.array(self.terminated) | np.array(self.truncated)

    def column(self, env: int) -> list[Step]:
        """The steps of one environment."""
        ends = zip(self.terminated, self.truncated, strict=True)
        made = []
        for t, (terminated, truncated) in enumerate(ends):
            over = [bool(terminated[env]), bool(truncated[env])]
            after = self.final_obs[t] if any(over) else self.obs[t + 1]
            made.append(Step(self.reward[t][env], over, after[env]))
        return made

    def columns(self, begin: int = 0) -> list[Any]:
        """Everything from step ``begin`` on; final observations only where they are valid."""
        final = np.array(self.final_obs[begin:])[self.ended[begin:]]
        parts = (self.obs, self.reward, self.terminated, self.truncated)
        return [*(np.array(part[begin:]) for part in parts), final]


def same(one: Driver, other: Driver, begin: int = 0) -> bool:
    """Whether ``one`` saw exactly the same as ``other`` from its step ``begin`` on."""
    return all(
        a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in zip(one.columns(), other.columns(begin), strict=True)
    )
