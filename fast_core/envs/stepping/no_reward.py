"""Episodes in which nothing has been gained for too long."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.config import EnvironmentConfig


class NoReward:
    """Counts steps without a reward other than 0, for ``environment.no_reward_timeout_steps``.

    Where actions are repeated, a step's reward is the sum of all repetitions. An episode that ends
    by itself in the step in which its time is up is not touched.

    Attributes:
        steps: ``[B]``, steps of each open episode since the last reward other than 0.
        penalty: What is added to the reward of a step that cuts an episode.
    """

    def __init__(self, limit: int, penalty: float, envs: int) -> None:
        self._limit, self.penalty = limit, penalty
        self.steps: NDArray[np.int64] = np.zeros(envs, np.int64)

    def due(self, reward: NDArray[np.float64]) -> list[int]:
        """Count a step of all; returns the places of those whose time is up."""
        self.steps += 1
        self.steps[reward != 0.0] = 0
        return np.flatnonzero(self.steps >= self._limit).tolist()

    def due_at(self, place: int, reward: float) -> bool:
        """Count a step of one; returns whether its time is up."""
        self.steps[place] = 0 if reward != 0.0 else self.steps[place] + 1
        return bool(self.steps[place] >= self._limit)


def no_reward(config: EnvironmentConfig, envs: int) -> NoReward | None:
    """What counts for ``envs`` environments, None where no time is set."""
    limit = config.no_reward_timeout_steps
    return None if limit is None else NoReward(limit, config.no_reward_penalty, envs)
