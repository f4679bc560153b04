"""An environment that talks on standard output, moves to another folder, and reports numbers."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from fast_core.algorithm import ShardRollout
from fast_core.nodes.rollout_stage import RolloutStage

LINE = "simulator v3, licensed to nobody"


class Talks(gymnasium.Env[np.ndarray, np.int64]):
    """Ten steps; prints at each reset by Python and past it, as code in C does."""

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, chatter: int = 1, render_mode: str | None = None) -> None:
        self.observation_space = Box(-1, 1, (1,), np.float32)
        self.action_space = Discrete(2)
        self.render_mode, self._chatter = render_mode, chatter
        os.chdir(tempfile.mkdtemp())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        print(LINE)
        os.write(1, (LINE + "\n").encode() * self._chatter)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        ends = self._steps == 10
        return np.zeros(1, np.float32), 1.0, ends, False, {"is_success": ends, "cost": 0.5}

    def render(self) -> Any:
        return np.zeros((16, 16, 3), np.uint8)


class Notes(RolloutStage):
    """Changes nothing and logs how many rows it saw."""

    def transform(self, rollout: ShardRollout) -> None:
        self.log_figures({"rows": rollout.reward.size})


gymnasium.register("fastloop/Talks-v0", entry_point=Talks)
