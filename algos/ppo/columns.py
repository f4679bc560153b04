"""From merged rollouts to the columns that PPO trains on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import RewardNormalizer, RunningMoments, normalise
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.core import Columns
from fast_core.algos.ppo.returns import generalized_advantages
from fast_core.algos.ppo.rollouts import MergedRollout


class ColumnMaker:
    """Normalises, bootstraps and estimates; owns the running statistics."""

    def __init__(self, settings: PPOConfig, size: int, *, shards: int, envs_per_shard: int) -> None:
        """``size`` is how many numbers an encoded observation has."""
        self._settings = settings
        self._normalizes = settings.normalize_observations and size > 0
        self._observations = RunningMoments(size)
        self._mean: F32 = np.zeros(size, np.float32)
        self._inverse_std: F32 = np.ones(size, np.float32)
        self._rewards = RewardNormalizer(
            gamma=settings.gamma,
            limit=settings.reward_clip,
            shards=shards,
            envs_per_shard=envs_per_shard,
        )

    def as_networks_see(self, merged: MergedRollout) -> MergedRollout:
        """Normalise the numbers of the observations, where they are."""
        if not self._normalizes:
            return merged
        clip = self._settings.observation_clip
        vector = normalise(merged.obs.vector, self._mean, self._inverse_std, clip)
        return replace(merged, obs=replace(merged.obs, vector=vector))

    def columns(self, merged: MergedRollout, values_of: Callable[[int, int], F32]) -> Columns:
        """Compute targets and advantages, in the order of collection.

        Args:
            merged: The rollouts of a ticket.
            values_of: Values of the observations from one row to another.
        """
        settings = self._settings
        steps, envs = merged.reward.shape
        rows = steps * envs
        values = values_of(0, rows + envs).reshape(steps + 1, envs)
        next_values = values[1:].copy()
        if len(merged.final_step):
            final_values = values_of(rows + envs, len(merged.obs))
            next_values[merged.final_step, merged.final_column] = final_values
        reward = merged.reward
        if settings.normalize_rewards:
            ended = merged.terminated | merged.truncated
            reward = self._rewards.normalise(reward, ended, merged.shards, merged.quarantined)
        terminated, known = merged.terminated, None
        if merged.quarantined is not None:
            # As good as expected, and the end: nothing of it reaches its own row or those before.
            reward = np.where(merged.quarantined, values[:-1], reward)
            terminated = terminated | merged.quarantined
            known = ~merged.quarantined.reshape(rows)
        advantage = generalized_advantages(
            reward,
            values[:-1],
            next_values,
            terminated,
            merged.truncated,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
        )
        target = advantage + values[:-1]
        scalars = np.stack([merged.behaviour_log_prob, advantage, target, values[:-1]])
        action = merged.action.reshape(rows, *merged.action.shape[2:])
        if action.ndim > 1 or action.dtype == np.float32:
            action = action.reshape(rows, -1)
        return Columns(action, scalars.reshape(4, rows), known)

    def observe(self, merged: MergedRollout) -> None:
        """Merge what the policy saw, after the round that it was normalised for.

        Collection used the statistics published before the round, and so did the targets: at
        degree 0 the first probability ratios are exactly those of the policy that acted.
        """
        if not self._normalizes:
            return
        rows = merged.obs.vector[: merged.reward.size]
        if merged.quarantined is not None:
            rows = rows[~merged.quarantined.reshape(-1)]
        if self._observations.update(rows):
            self._publish_statistics()

    def published_statistics(self) -> list[Array]:
        """What policies need to normalise observations; empty where they are used raw."""
        if not self._normalizes:
            return []
        return [self._mean, self._inverse_std]

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        return {
            "observations": self._observations.state_dict(),
            "rewards": self._rewards.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self._observations.load_state_dict(state["observations"])
        self._rewards.load_state_dict(state["rewards"])
        self._publish_statistics()

    def _publish_statistics(self) -> None:
        self._mean = self._observations.mean.astype(np.float32)
        self._inverse_std = self._observations.inverse_std().astype(np.float32)
