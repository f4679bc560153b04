"""A policy that plays whole episodes without exploration, for evaluation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array, Policy
from fast_core.plan import RunPlan


class Actor:
    """From observations to what environments take; remembers for policies with memory."""

    def __init__(self, plan: RunPlan, policy: Policy, envs: int) -> None:
        """``policy`` acts on ``envs`` rows at once."""
        self._policy = policy
        noise = plan.blueprint.noise(plan.environment)
        self._noise = np.zeros((envs, *noise.shape), np.float32)
        size = plan.blueprint.state_size(plan.environment)
        self._state = np.zeros((envs, size), np.float32) if size else None

    def __call__(self, obs: Array, began: NDArray[np.bool_]) -> Array:
        """Act on ``obs`` ``[B, ...]``; ``began`` ``[B]`` marks the first rows of episodes."""
        if self._state is not None:
            self._state[began] = 0.0
        output = self._policy.act(obs, noise=self._noise, explore=False, state=self._state)
        if self._state is not None:
            self._state[...] = output.state
        return self._policy.environment_action(output.action)
