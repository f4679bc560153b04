"""Normal distributions squeezed into (-1, 1) by tanh, and their gradients, in NumPy."""

from __future__ import annotations

import math

import numpy as np

from fast_core.algos.nets.distributions import LOG_2PI
from fast_core.algos.nets.networks import F32

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0
LOG_2 = math.log(2.0)
LARGEST = np.nextafter(np.float32(1), np.float32(0))


def log_slope(u: F32) -> F32:
    """``log(1 - tanh(u)^2)``, exact where tanh(u) rounds to 1.

    ``1 - tanh(u)^2 = 4 e^(-2|u|) / (1 + e^(-2|u|))^2``.
    """
    doubled: F32 = np.abs(u)
    doubled *= np.float32(-2)
    slope: F32 = np.log1p(np.exp(doubled))
    slope *= np.float32(-2)
    slope += doubled
    slope += np.float32(2 * LOG_2)
    return slope


class SquashedGaussian:
    """``a = tanh(u)``, ``u`` normal with mean and log-deviation from a network.

    Outputs of the network are ``[2 A, B]``, means first. Log-deviations are limited to [-20, 2];
    beyond they have no gradient.

    Args:
        size: ``A``.

    Source: Haarnoja et al. 2018, arXiv:1812.05905, appendix C.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._constant = np.float32(0.5 * LOG_2PI * size)

    def sample(self, output: F32, noise: F32) -> tuple[F32, F32]:
        """Return actions ``[A, B]`` and their log-probabilities ``[B]``.

        ``noise [A, B]`` is standard normal; zeros give the mode of ``u``. What `backward` needs
        is kept.
        """
        raw = output[self._size :]
        log_std: F32 = np.minimum(np.maximum(raw, np.float32(LOG_STD_MIN)), np.float32(LOG_STD_MAX))
        self._inside = log_std == raw
        self._spread: F32 = np.exp(log_std) * noise
        u: F32 = output[: self._size] + self._spread
        self._action: F32 = np.tanh(u)
        return self._action, self._log_density(np.square(noise), log_std, u)

    def backward(self, action_gradient: F32, log_prob_gradient: float) -> F32:
        """Gradient ``[2 A, B]`` with respect to the output last sampled from.

        Args:
            action_gradient: ``[A, B]``, of the loss with respect to the actions.
            log_prob_gradient: Of the loss with respect to every row's log-probability.
        """
        size, slope = self._size, np.float32(log_prob_gradient)
        action = self._action
        gradient: F32 = np.empty((2 * size, action.shape[1]), np.float32)
        mean, log_std = gradient[:size], gradient[size:]
        # d log p / du = 2 tanh(u); da/du = 1 - a^2
        np.multiply(action, action, out=mean)
        np.subtract(np.float32(1), mean, out=mean)
        mean *= action_gradient
        mean += (2 * slope) * action
        np.multiply(mean, self._spread, out=log_std)
        log_std -= slope
        log_std *= self._inside
        return gradient

    def moments(self, output: F32) -> tuple[F32, F32]:
        """Mean and deviation of the actions, ``[A, B]``: a sum over the whole of the noise.

        Its steps are so small that the sum is as exact as float32, for every deviation there is.
        """
        log_std = np.clip(output[self._size :], LOG_STD_MIN, LOG_STD_MAX).astype(np.float64)
        noise = np.linspace(-6.0, 6.0, 401)
        weight = np.exp(-0.5 * np.square(noise))
        weight /= weight.sum()
        action = np.tanh(output[: self._size, :, None] + np.exp(log_std)[..., None] * noise)
        mean = action @ weight
        variance = np.square(action - mean[..., None]) @ weight
        return mean.astype(np.float32), np.sqrt(variance).astype(np.float32)

    def log_prob(self, output: F32, action: F32) -> F32:
        """Log-probabilities ``[B]`` of actions ``[A, B]``.

        Actions of exactly 1 or -1 count as the number next to them, towards 0.
        """
        u: F32 = np.arctanh(np.clip(action, -LARGEST, LARGEST))
        log_std = np.clip(output[self._size :], LOG_STD_MIN, LOG_STD_MAX)
        standard = (u - output[: self._size]) * np.exp(-log_std)
        return self._log_density(np.square(standard), log_std, u)

    def _log_density(self, squares: F32, log_std: F32, u: F32) -> F32:
        total = squares * np.float32(0.5)
        total += log_std
        total += log_slope(u)
        log_prob: F32 = np.add.reduce(total, axis=0)
        np.add(log_prob, self._constant, out=log_prob)
        return np.negative(log_prob, out=log_prob)
