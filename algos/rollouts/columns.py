"""From merged rollouts to the columns that PPO trains on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import RewardNormalizer, RunningMoments, normalise
from fast_core.algos.nets.observations import Bool
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.core import Columns, Critic
from fast_core.algos.rollouts.merged import MergedRollout
from fast_core.algos.rollouts.returns import generalized_advantages


class Outcomes(NamedTuple):
    """What steps led to, each ``[T, N]``; see `generalized_advantages`."""

    reward: F32
    value: F32
    next_value: F32
    terminated: Bool
    truncated: Bool


def actions(merged: MergedRollout) -> Array:
    """The actions of a ticket, one row for each, as `Columns` has them."""
    rows = merged.reward.size
    action = merged.action.reshape(rows, *merged.action.shape[2:])
    return action.reshape(rows, -1) if action.ndim > 1 or action.dtype == np.float32 else action


class ColumnMaker:
    """Normalises, bootstraps and estimates; owns the running statistics.

    Attributes:
        origin: What numbers of observations are counted from, as `ObservationEncoder.centre` says.
    """

    def __init__(self, settings: PPOConfig, size: int, *, shards: int, envs_per_shard: int) -> None:
        """``size`` is how many numbers an encoded observation has."""
        self._settings = settings
        self._normalizes = settings.normalize_observations and size > 0
        self._observations = RunningMoments(size)
        self.origin: F32 = np.zeros((2, size), np.float32)
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

    def columns(self, merged: MergedRollout, critic: Critic) -> Columns:
        """Compute targets and advantages, in the order of collection.

        Args:
            merged: The rollouts of a ticket.
            critic: Knows the values of its observations.
        """
        steps, envs = merged.reward.shape
        values = critic.values(0, merged.reward.size + envs).reshape(steps + 1, envs)
        outcomes = self._outcomes(merged, values, critic)
        advantage = generalized_advantages(
            *outcomes, gamma=self._settings.gamma, gae_lambda=self._settings.gae_lambda
        )
        value = outcomes.value
        scalars = np.stack([merged.behaviour_log_prob, advantage, advantage + value, value])
        known = None if merged.quarantined is None else ~merged.quarantined.reshape(-1)
        return Columns(actions(merged), scalars.reshape(4, -1), known)

    def _outcomes(self, merged: MergedRollout, values: F32, critic: Critic) -> Outcomes:
        """What the steps of a ticket led to; ``values`` are those of ``T + 1`` steps."""
        value, next_value = values[:-1], values[1:].copy()
        if len(merged.final_step):
            final_values = critic.values(values.size, len(merged.obs))
            next_value[merged.final_step, merged.final_column] = final_values
        reward, terminated = merged.reward, merged.terminated
        if self._settings.normalize_rewards:
            ended = terminated | merged.truncated
            reward = self._rewards.normalise(reward, ended, merged.shards, merged.quarantined)
        if merged.quarantined is not None:
            # As good as expected, and the end: nothing of it reaches its own row or those before.
            reward = np.where(merged.quarantined, value, reward)
            terminated = terminated | merged.quarantined
        return Outcomes(reward, value, next_value, terminated, merged.truncated)

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

    @property
    def fresh(self) -> bool:
        """Whether nothing was observed yet."""
        return self._observations.count == 0

    def published_statistics(self) -> list[Array]:
        """What policies need to normalise observations; empty where they are used raw."""
        if not self._normalizes:
            return []
        return [self._mean, self._inverse_std]

    def reward_scale(self) -> list[Array]:
        """What rewards are multiplied with now, ``[1]``; empty where they are used as they are."""
        return [self._rewards.inverse_std] if self._settings.normalize_rewards else []

    def state_dict(self) -> dict[str, object]:
        """Everything that changes."""
        return {
            **({"origin": self.origin.copy()} if self.origin.any() else {}),
            "observations": self._observations.state_dict(),
            "rewards": self._rewards.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict`."""
        self.origin[...] = state.get("origin", 0)
        self._observations.load_state_dict(state["observations"])
        self._rewards.load_state_dict(state["rewards"])
        self._publish_statistics()

    def _publish_statistics(self) -> None:
        self._mean = self._observations.mean.astype(np.float32)
        self._inverse_std = self._observations.inverse_std().astype(np.float32)
