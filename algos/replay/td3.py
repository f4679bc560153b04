"""TD3's learner, and with other settings DDPG's.

Sources: Fujimoto et al. 2018, arXiv:1802.09477; Lillicrap et al. 2015, arXiv:1509.02971.
"""

from __future__ import annotations

import numpy as np

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.box_learner import BoxLearner, least_value
from fast_core.algos.replay.td3_config import TD3Config

ONE = np.float32(1)


class TD3(BoxLearner):
    """Twin delayed DDPG; implements `fast_core.algorithm.Algorithm`.

    Args:
        settings: Hyper-parameters and network shapes.
        environment: What is learned; `TD3Config.check` has accepted it.
        setup: The run.
    """

    settings: TD3Config

    def __init__(
        self, settings: TD3Config, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(settings, environment, setup)
        self._target_policy = self._vectors.target_network("policy")
        self._action: F32 = np.empty((0, 0), np.float32)

    def _next_value(self) -> F32:
        """Clipped double Q-learning with smoothed actions ``[N]``: equations 10 and 14."""
        action: F32 = np.tanh(self._target_policy.forward(self._inputs.next_obs)[0])
        if self.settings.smoothing_noise > 0.0:
            noise, limit = self._normal(*action.shape), np.float32(self.settings.smoothing_limit)
            noise *= np.float32(self.settings.smoothing_noise)
            action += np.minimum(np.maximum(noise, -limit, out=noise), limit)
            np.minimum(np.maximum(action, -ONE, out=action), ONE, out=action)
        values = self._target_critics.forward(self._inputs.with_next_action(action))[:, 0]
        target: F32 = np.minimum.reduce(values, axis=0)
        return target

    def _act(self, output: F32) -> F32:
        self._action = np.tanh(output)
        return self._action

    def _policy_value(self, value: F32, delta: F32) -> float:
        """The first critic's, as the paper's algorithm 1 has it."""
        return least_value(value[:1], delta[:1])

    def _policy_gradient(self, slope: F32, value: float, metrics: dict[str, float]) -> F32:
        metrics["policy_loss"] = -value
        gradient = np.square(self._action)
        np.subtract(ONE, gradient, out=gradient)
        return np.multiply(gradient, slope, out=gradient)
