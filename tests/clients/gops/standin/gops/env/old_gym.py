"""Environments as Gym 0.23 had them: one flag, a note in the info where the time was over."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box


class Drift:
    """A point that the action pushes and a constant wind drives off; 20 steps at most."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)
    additional_info = {"wind": {"shape": (3,), "dtype": np.float32}}

    def __init__(self, **kwargs: Any) -> None:
        self._rng = np.random.default_rng()

    def seed(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def reset(self) -> tuple[np.ndarray, dict[str, Any]]:
        self._at, self._steps = self._rng.normal(size=2).astype(np.float32), 0
        return self._at.copy(), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        self._steps += 1
        push = np.array([action[0], 0.1], np.float32)
        self._at = self._at + 0.3 * push + 0.05 * self._rng.normal(size=2).astype(np.float32)
        gone = abs(float(self._at[0])) > 3.0
        over = self._steps >= 20 and not gone
        info = self._info() | {"TimeLimit.truncated": over, "constraint": float(self._at[1])}
        return self._at.copy(), -float(self._at[0] ** 2), gone or over, info

    def _info(self) -> dict[str, Any]:
        return {"wind": np.array([*self._at, self._steps], np.float32)}


class Broken(Drift):
    """Fails in its 50th step, as a user's own may."""

    done = 0

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        self.done += 1
        if self.done == 50:
            raise ZeroDivisionError("the wind went out")
        return super().step(action)
