"""Running statistics of what the learner was given, and what they make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import RewardNormalizer, RunningMoments, normalise
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.merged import MergedRollout


class RunningStatistics:
    """Of the numbers of observations and of returns, if they are normalised.

    Attributes:
        origin: What numbers of observations are counted from, as `ObservationEncoder.centre` says.
    """

    def __init__(
        self, settings: ActorCriticConfig, size: int, *, shards: int, envs_per_shard: int
    ) -> None:
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

    def reward(self, merged: MergedRollout) -> F32:
        """The rewards ``[T, N]`` as values are of them; the statistics include them."""
        if not self._settings.normalize_rewards:
            return merged.reward
        ended = merged.terminated | merged.truncated
        return self._rewards.normalise(merged.reward, ended, merged.shards, merged.quarantined)

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
