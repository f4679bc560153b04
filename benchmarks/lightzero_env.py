"""LightZero's CartPole with steps that take time, for `benchmarks.lightzero`; needs LightZero."""

from __future__ import annotations

import time
from typing import Any

from ding.utils import ENV_REGISTRY
from zoo.classic_control.cartpole.envs.cartpole_lightzero_env import CartPoleEnv


@ENV_REGISTRY.register("slow_cartpole")
class SlowCartPole(CartPoleEnv):  # type: ignore[misc]
    """Sleeps in each step, as a simulator elsewhere would have it wait."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self._step_s = cfg["step_ms"] / 1e3

    def step(self, action: Any) -> Any:
        """Wait, then step."""
        time.sleep(self._step_s)
        return super().step(action)
