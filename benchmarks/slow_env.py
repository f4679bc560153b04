"""An environment whose steps take a given time, asleep as one that waits for a simulator, or busy.

Registered by importing this module: ``environment.modules: [benchmarks.slow_env]``.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np

ENVIRONMENT = "FastLoopBench/Slow-v0"
EPISODE_STEPS = 1000


class SlowEnv(gymnasium.Env[np.ndarray, np.int64]):
    """Four numbers to see, two choices, and nothing to learn."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(
        self,
        step_s: float,
        busy: bool = False,
        dispersed: bool = False,
        episode_steps: int = EPISODE_STEPS,
    ) -> None:
        """Each step takes ``step_s`` seconds; ``busy`` ones of processor time.

        ``dispersed`` ones take so long in the mean of an exponential distribution.
        """
        self._step_s, self._busy, self._dispersed = step_s, busy, dispersed
        self._episode_steps, self._steps = episode_steps, 0
        self._obs = np.zeros(4, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin at once."""
        super().reset(seed=seed)
        self._steps = 0
        return self._obs, {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take the time."""
        step_s = self._step_s
        if self._dispersed:
            step_s *= self.np_random.exponential()
        if self._busy:
            end_s = time.thread_time() + step_s
            while time.thread_time() < end_s:
                pass
        else:
            time.sleep(step_s)
        self._steps += 1
        return self._obs, 0.0, False, self._steps >= self._episode_steps, {}


gymnasium.register(ENVIRONMENT, entry_point=SlowEnv, max_episode_steps=EPISODE_STEPS)
