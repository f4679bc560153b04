"""The weight of the entropy, fixed or learned.

Source: Haarnoja et al. 2018, arXiv:1812.05905, section 5, on the logarithm.
"""

from __future__ import annotations

import math

import numpy as np

from fast_core.algos.replay.box_blueprint import SquashedBlueprint
from fast_core.algos.replay.vectors import Vectors


class Temperature:
    """Keeps the policy's entropy near its target.

    Args:
        settings: What it is, or where it begins.
        actions: Dimensions of an action, which make the default target.
        vectors: Hold its logarithm as the group ``temperature``.
    """

    def __init__(self, settings: SquashedBlueprint, actions: int, vectors: Vectors) -> None:
        fixed = settings.temperature
        self._learned = fixed == "auto"
        self._rate = settings.temperature_learning_rate or settings.learning_rate
        self._vectors = vectors
        wanted = settings.target_entropy
        self.target_entropy = -float(actions) if wanted is None else wanted
        first = settings.initial_temperature if isinstance(fixed, str) else fixed
        vectors.put_numbers("temperature", np.array([math.log(first)], np.float32))

    @property
    def value(self) -> float:
        """The temperature; infinite where its logarithm has run away."""
        log = float(self._vectors.numbers("temperature")[0])
        return math.exp(log) if log < 700.0 else math.inf

    def differentiate(self, mean_log_prob: float) -> None:
        """Write the gradient of ``-log(temperature) * (log_prob + target_entropy)``.

        It falls while the entropy, ``-mean_log_prob``, is above its target.
        """
        gradient = -(mean_log_prob + self.target_entropy) if self._learned else 0.0
        self._vectors.put_gradient("temperature", np.array([gradient], np.float32))

    def step(self) -> None:
        """Step along the gradient, if it is learned."""
        if self._learned:
            self._vectors.step("temperature", self._rate)
