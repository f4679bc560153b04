"""A road with a speed limit: faster is better, and each step above the limit costs 1."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

STEPS = 50


class Road(gymnasium.Env[np.ndarray, np.int64]):
    """Observes speed and limit, of the episode; actions slow down, go on, or speed up."""

    observation_space = Box(0.0, 1.0, (2,), np.float32)
    action_space = Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Stand at a limit that is drawn."""
        super().reset(seed=seed)
        self._speed, self._limit = 0.0, float(self.np_random.uniform(0.2, 0.8))
        self._steps, self._costs = 0, 0.0
        return self._seen(), {}

    def step(self, action: np.int64) -> Any:
        """The reward is the speed; ``cost`` is of this step, ``mean_cost`` of the episode."""
        self._speed = float(np.clip(self._speed + 0.1 * (int(action) - 1), 0.0, 1.0))
        cost = float(self._speed > self._limit)
        self._steps, self._costs = self._steps + 1, self._costs + cost
        info = {"cost": cost, "mean_cost": self._costs / self._steps}
        return self._seen(), self._speed, False, self._steps == STEPS, info

    def _seen(self) -> np.ndarray:
        return np.array([self._speed, self._limit], np.float32)


gymnasium.register("Road-v0", Road)
