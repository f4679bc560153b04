"""PPO's learner."""

from __future__ import annotations

import math

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.networks import F32, NetworkShape
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.ppo.explicit import ExplicitCore
from fast_core.algos.ppo.recurrent_core import RecurrentExplicitCore
from fast_core.algos.rollouts.config import ActorCriticConfig
from fast_core.algos.rollouts.core import MinibatchReport, UpdateCore
from fast_core.algos.rollouts.learner import RolloutLearner


class PPO(RolloutLearner):
    """Proximal policy optimisation; implements `fast_core.algorithm.Algorithm`."""

    _settings: PPOConfig

    def _make_core(self, shape: NetworkShape, parameters: F32, setup: LearnerSetup) -> UpdateCore:
        settings = self._settings
        plain = setup.device == "cpu" and setup.precision == "fp32" and not setup.compile
        if settings.gradient == "explicit" and plain and not shape.images and shape.own is None:
            explicit = ExplicitCore if shape.memory is None else RecurrentExplicitCore
            return explicit(settings, shape, parameters)
        # Imported here because torch costs a second or two and 200 MB.
        from fast_core.algos.ppo.autograd import clipped_loss
        from fast_core.algos.rollouts.recurrent_torch_core import torch_core
        from fast_core.algos.rollouts.torch_core import Objective

        objective = Objective(lambda rows: clipped_loss(self._settings, rows))
        return torch_core(settings, shape, parameters, setup, objective)

    def change(self, settings: ActorCriticConfig) -> None:
        """See `fast_core.algorithm.Changeable`."""
        super().change(settings)
        if isinstance(self._core, ExplicitCore):
            self._core.change(self._settings)

    def scheduled(self, left: float) -> float:
        """The distance of ratios from 1 that is rewarded."""
        settings = self._settings
        if settings.clip_epsilon is None:
            return math.inf
        return settings.clip_epsilon * (left if settings.clip_schedule == "linear" else 1.0)

    @property
    def _may_stop(self) -> bool:
        return self._settings.target_kl is not None

    def _stops(self, step: MinibatchReport) -> bool:
        limit = self._settings.target_kl
        return limit is not None and step.metrics["approx_kl"] > 1.5 * limit
