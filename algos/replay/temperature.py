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
        self._vectors, self._actions = vectors, actions
        if settings.temperature == "auto":
            self._put(settings.initial_temperature)
        self.change(settings)

    def change(self, settings: SquashedBlueprint) -> None:
        """Go on with these settings; one that is learned goes on where it is."""
        fixed, wanted = settings.temperature, settings.target_entropy
        self._learned = fixed == "auto"
        self._rate = settings.temperature_learning_rate or settings.learning_rate
        self.target_entropy = -float(self._actions) if wanted is None else wanted
        if not isinstance(fixed, str):
            self._put(fixed)

    def _put(self, value: float) -> None:
        self._vectors.put_numbers("temperature", np.array([math.log(value)], np.float32))

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
