"""SAC's learner: soft actor-critic with an ensemble of critics and its own temperature.

Source: Haarnoja et al. 2018, arXiv:1812.05905; random subsets of critics in targets: Chen et al.
2021, arXiv:2101.05982 (REDQ).
"""

from __future__ import annotations

import numpy as np

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.squashed_gaussian import SquashedGaussian
from fast_core.algos.replay.box_blueprint import BoxBlueprint, SquashedBlueprint
from fast_core.algos.replay.box_learner import BoxLearner, least_value, mean_value
from fast_core.algos.replay.sac_config import SACConfig
from fast_core.algos.replay.temperature import Temperature


class EntropyLearner(BoxLearner):
    """An actor-critic with a squashed Gaussian and an entropy bonus.

    Args:
        settings: Hyper-parameters and network shapes.
        environment: What is learned.
        setup: The run.
    """

    def __init__(
        self, settings: SquashedBlueprint, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(settings, environment, setup)
        self._distribution = SquashedGaussian(self._actions)
        self._temperature = Temperature(settings, self._actions, self._vectors)
        self._log_prob: F32 = np.empty(0, np.float32)

    def change(self, settings: BoxBlueprint) -> None:
        """See `fast_core.algorithm.Changeable`."""
        assert isinstance(settings, SquashedBlueprint)
        super().change(settings)
        self._temperature.change(settings)

    def _sample(self, output: F32) -> tuple[F32, F32]:
        """Actions ``[A, N]`` and their log-probabilities ``[N]``."""
        noise = self._normal(self._actions, output.shape[1])
        return self._distribution.sample(output, noise)

    def _act(self, output: F32) -> F32:
        action, self._log_prob = self._sample(output)
        return action

    def _policy_gradient(self, slope: F32, value: float, metrics: dict[str, float]) -> F32:
        """Of ``temperature * log_prob - value``: equation 9 of SAC's paper."""
        rows, temperature = slope.shape[1], self._temperature.value
        log_prob = float(np.add.reduce(self._log_prob)) / rows
        self._temperature.differentiate(log_prob)
        metrics["policy_loss"] = temperature * log_prob - value
        metrics["entropy"] = -log_prob
        metrics["temperature"] = temperature
        return self._distribution.backward(slope, temperature / rows)

    def _step(self, policy: bool) -> None:
        super()._step(policy)
        if policy:
            self._temperature.step()


class SAC(EntropyLearner):
    """Soft actor-critic; implements `fast_core.algorithm.Algorithm`."""

    settings: SACConfig

    def _next_value(self) -> F32:
        """Soft values ``[N]``: equation 3, over n steps."""
        action, log_prob = self._sample(self._policy.forward(self._inputs.next_obs)[0])
        values = self._target_critics.forward(self._inputs.with_next_action(action))[:, 0]
        some = self.settings.critics_in_target
        if some is not None and some < len(values):
            values = values[self._rng.choice(len(values), some, replace=False)]
        target: F32 = np.minimum.reduce(values, axis=0)
        target -= np.float32(self._temperature.value) * log_prob
        return target

    def _policy_value(self, value: F32, delta: F32) -> float:
        """The least value, or with random subsets in targets the mean (REDQ, algorithm 1)."""
        joined = mean_value if self.settings.averages_critics() else least_value
        return joined(value, delta)
