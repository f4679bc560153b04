"""From merged rollouts to the columns that PPO trains on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from algos.networks import F32
from algos.normalizer import RewardNormalizer, RunningMoments, normalise
from algos.observations import ObservationEncoder
from algos.ppo_core import Columns
from algos.ppo_settings import PPOSettings
from algos.returns import generalized_advantages
from algos.rollouts import MergedRollout
from fast_core.algorithm import Array
from fast_core.spec import SpaceSpec


class ColumnMaker:
    """Normalises, bootstraps and estimates; owns the running statistics."""

    def __init__(
        self, settings: PPOSettings, observation: SpaceSpec, *, shards: int, envs_per_shard: int
    ) -> None:
        self._settings = settings
        self.encoder = ObservationEncoder(observation)
        size = self.encoder.size
        self._observations = RunningMoments(size)
        self._mean: F32 = np.zeros(size, np.float32)
        self._inverse_std: F32 = np.ones(size, np.float32)
        self._rewards = RewardNormalizer(
            gamma=settings.gamma,
            limit=settings.reward_clip,
            shards=shards,
            envs_per_shard=envs_per_shard,
        )

    def columns(self, merged: MergedRollout, values_of: Callable[[F32], F32]) -> Columns:
        """Compute targets and advantages, in the order of collection.

        Args:
            merged: The rollouts of a ticket.
            values_of: Values ``[M]`` of observations ``[M, in]``.
        """
        settings = self._settings
        steps, envs = merged.reward.shape
        rows = steps * envs
        obs = self._as_networks_see(merged.obs.reshape(rows + envs, -1))
        values = values_of(obs).reshape(steps + 1, envs)
        next_values = values[1:].copy()
        if len(merged.final_obs):
            final_values = values_of(self._as_networks_see(merged.final_obs))
            next_values[merged.final_step, merged.final_column] = final_values
        reward = merged.reward
        if settings.normalize_rewards:
            ended = merged.terminated | merged.truncated
            reward = self._rewards.normalise(reward, ended, merged.shards)
        advantage = generalized_advantages(
            reward,
            values[:-1],
            next_values,
            merged.terminated,
            merged.truncated,
            gamma=settings.gamma,
            gae_lambda=settings.gae_lambda,
        )
        target = advantage + values[:-1]
        scalars = np.stack([merged.behaviour_log_prob, advantage, target, values[:-1]])
        action = merged.action.reshape(rows, *merged.action.shape[2:])
        if action.ndim > 1:
            action = action.reshape(rows, -1)
        return Columns(obs[:rows], action, scalars.reshape(4, rows))

    def _as_networks_see(self, obs: F32) -> F32:
        if not self._settings.normalize_observations:
            return obs
        return normalise(obs, self._mean, self._inverse_std, self._settings.observation_clip)

    def observe(self, merged: MergedRollout) -> None:
        """Merge what the policy saw, after the round that it was normalised for.

        Collection used the statistics published before the round, and so did the targets: at
        degree 0 the first probability ratios are exactly those of the policy that acted.
        """
        if not self._settings.normalize_observations:
            return
        rows = merged.obs[:-1]
        if self._observations.update(rows.reshape(-1, rows.shape[-1])):
            self._publish_statistics()

    def published_statistics(self) -> list[Array]:
        """What policies need to normalise observations; empty where they are used raw."""
        if not self._settings.normalize_observations:
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
