"""Adam over one flat vector, in place, in NumPy."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from fast_core.algos.nets.networks import F32

BETAS = (0.9, 0.999)
Schedule = Literal["constant", "linear"]  # of a step size


class Adam:
    """Adam with bias correction, as torch has it.

    One vector holds all parameters, so a step is a dozen calls however many layers there are.

    Source: Kingma and Ba 2014, arXiv:1412.6980.
    """

    def __init__(self, parameters: F32, *, epsilon: float) -> None:
        self._parameters = parameters
        self._epsilon = epsilon
        self.first_moment: F32 = np.zeros_like(parameters)
        self.second_moment: F32 = np.zeros_like(parameters)
        self.steps = 0
        self._work: F32 = np.empty_like(parameters)

    def step(self, gradient: F32, learning_rate: float, scale: float) -> None:
        """Move the parameters along ``scale * gradient``, which is destroyed."""
        beta1, beta2 = BETAS
        first, second, work = self.first_moment, self.second_moment, self._work
        self.steps += 1
        np.multiply(gradient, np.float32(scale * (1 - beta1)), out=gradient)
        np.multiply(first, np.float32(beta1), out=first)
        np.add(first, gradient, out=first)
        np.square(gradient, out=gradient)
        np.multiply(gradient, np.float32((1 - beta2) / (1 - beta1) ** 2), out=gradient)
        np.multiply(second, np.float32(beta2), out=second)
        np.add(second, gradient, out=second)
        # Both bias corrections are folded into two scalars: p -= size * m / (sqrt(v) + offset).
        correction = math.sqrt(1 - beta2**self.steps)
        size = learning_rate * correction / (1 - beta1**self.steps)
        np.sqrt(second, out=work)
        np.add(work, np.float32(self._epsilon * correction), out=work)
        np.divide(first, work, out=work)
        np.multiply(work, np.float32(size), out=work)
        np.subtract(self._parameters, work, out=self._parameters)

    def moments(self) -> tuple[F32, F32]:
        """Copies of the first and second moment."""
        return self.first_moment.copy(), self.second_moment.copy()

    def load(self, first: F32, second: F32, steps: int) -> None:
        """Go on from these moments and this number of steps."""
        self.first_moment[:], self.second_moment[:], self.steps = first, second, steps
