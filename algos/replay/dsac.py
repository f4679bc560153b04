"""DSAC's and DSAC-T's learners: critics that know how returns are spread.

Sources: Duan et al. 2021, arXiv:2001.02811 (DSAC); Duan et al. 2023, arXiv:2310.05858 (DSAC-T).
"""

from __future__ import annotations

import numpy as np

from fast_core.algorithm import LearnerSetup
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.dsac_config import (
    DistributionalBlueprint,
    DSACConfig,
    DSACTConfig,
)
from fast_core.algos.replay.learner import Losses
from fast_core.algos.replay.sac import EntropyLearner

LEAST_VARIANCE = 1e-4  # in denominators, where a critic is certain
FARTHEST = np.float32(3)  # deviations of a sampled return from its mean


class Distributional(EntropyLearner):
    """What both have in common: normal distributions of the return.

    A critic puts out mean and softplus's argument of the deviation.

    Args:
        settings: Hyper-parameters and network shapes.
        environment: What is learned.
        setup: The run.
    """

    def __init__(
        self, settings: DistributionalBlueprint, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(settings, environment, setup)
        self._target_policy = self._vectors.target_network("policy")

    def _next_value(self) -> F32:
        """Values ``[2, N]``: of the next return's mean, and of a sample of it.

        Both are of the critic with the least mean (DSAC-T: twin value distribution learning).
        """
        action, log_prob = self._sample(self._target_policy.forward(self._inputs.next_obs)[0])
        value = self._target_critics.forward(self._inputs.with_next_action(action))
        mean, std = value[:, 0], softplus(value[:, 1])
        if len(mean) == 1:
            least_mean, least_std = mean[0], std[0]
        else:
            least = mean.argmin(axis=0)[None]
            least_mean = np.take_along_axis(mean, least, axis=0)[0]
            least_std = np.take_along_axis(std, least, axis=0)[0]
        noise = self._normal(len(log_prob))
        np.minimum(np.maximum(noise, -FARTHEST, out=noise), FARTHEST, out=noise)
        target: F32 = np.empty((2, len(log_prob)), np.float32)
        target[0] = least_mean
        np.multiply(noise, least_std, out=noise)
        np.add(least_mean, noise, out=target[1])
        target -= np.float32(self._temperature.value) * log_prob
        return target


class DSAC(Distributional):
    """Distributional soft actor-critic; implements `fast_core.algorithm.Algorithm`."""

    settings: DSACConfig

    def _critic_losses(self, value: F32, target: F32, weight: F32, delta: F32) -> Losses:
        """The mean follows sampled returns; the deviation their bounded distance from it."""
        std = softplus(value[:, 1])
        return distribution_gradient(
            value, std, target[1], target[1], weight, delta,
            bound=np.float32(self.settings.return_bound), scale=None,
            offset=np.float32(self.settings.variance_offset),
        )  # fmt: skip


class DSACT(Distributional):
    """DSAC with three refinements; implements `fast_core.algorithm.Algorithm`.

    The means follow expected next values (expected value substituting). How far a sampled return
    counts, and how large gradients are, follow running averages of each critic's deviation and
    variance (variance-based critic gradient adjusting), which are a part of the state.
    """

    settings: DSACTConfig

    def _critic_losses(self, value: F32, target: F32, weight: F32, delta: F32) -> Losses:
        """Gradients bounded and scaled by averages that include this batch."""
        std = softplus(value[:, 1])
        seen: F32 = np.empty((len(std), 2), np.float32)
        seen[:, 0] = np.add.reduce(std, axis=1)
        seen[:, 1] = np.add.reduce(np.square(std), axis=1)
        seen *= np.float32(1.0 / std.shape[1])
        self._vectors.put_gradient("averages", seen.ravel())
        average, offset = self._averaged(seen), np.float32(self.settings.variance_offset)
        losses = distribution_gradient(
            value, std, target[0], target[1], weight, delta,
            bound=np.float32(self.settings.bound_deviations) * average[:, :1],
            scale=average[:, 1:] + offset, offset=offset,
        )  # fmt: skip
        losses.metrics["average_std"] = float(average[0, 0])
        return losses

    def _averaged(self, seen: F32) -> F32:
        """The running averages ``[M, 2]`` with a batch's statistics; the first batch's alone."""
        if self._updates == 0:
            return seen
        average = self._vectors.numbers("averages").reshape(-1, 2)
        return running_average(average, seen, self.settings.average_rate)

    def _step(self, policy: bool) -> None:
        # By what all optimizers saw, where there are several.
        seen = self._vectors.gradient("averages").reshape(-1, 2)
        self._vectors.put_numbers("averages", self._averaged(seen).ravel())
        super()._step(policy)


def softplus(x: F32) -> F32:
    """``log(1 + e^x)``, without overflow."""
    return np.logaddexp(x, np.float32(0))


def running_average(average: F32, seen: F32, rate: float) -> F32:
    """Move averages by ``rate`` of their distance to what was seen."""
    return average + np.float32(rate) * (seen - average)


def bounded(sample: F32, mean: F32, bound: F32 | np.float32) -> F32:
    """Sampled returns, at most ``bound`` from the mean: ``C(y; b)`` of DSAC-T."""
    distance: F32 = sample - mean
    np.minimum(np.maximum(distance, -bound, out=distance), bound, out=distance)
    distance += mean
    return distance


def distribution_gradient(
    value: F32,
    std: F32,
    target: F32,
    sample: F32,
    weight: F32,
    delta: F32,
    *,
    bound: F32 | np.float32,
    scale: F32 | None,
    offset: float | np.float32,
) -> Losses:
    """Gradient of the critics' divergence from the distribution of targets.

    With ``y`` the target of the mean, ``z`` the bounded sample and ``e`` the offset, of one row::

        d mean = -(y - mean) / (std^2 + e) * scale
        d std  = -((z - mean)^2 - std^2) / (std^3 + e) * scale

    In DSAC ``e`` is 0 and the scale 1: the gradient of minus the log-density of a normal
    distribution, but for the bound. There deviations below 0.01 count as 0.01 in denominators,
    so that gradients stay finite where a critic is certain.

    Args:
        value: ``[M, 2, N]``, what critics put out.
        std: ``[M, N]``, their deviations.
        target: ``[N]``, for the means.
        sample: ``[N]``, sampled returns, for the deviations.
        weight: ``[N]``, importance weights.
        delta: ``[M, 2, N]``, where the gradient goes.
        bound: Most that a sample may be from the mean, ``[M, 1]`` or one for all.
        scale: ``[M, 1]``, None for 1.
        offset: Added to both denominators.

    Source: arXiv:2310.05858, variance-based critic gradient adjusting; arXiv:2001.02811,
    section IV-B.
    """
    members, _, rows = value.shape
    mean = value[:, 0]
    error = mean - target
    variance = np.square(std)
    factor = weight * np.float32(1.0 / rows)
    factors = factor if scale is None else factor * scale
    np.divide(error, np.maximum(variance + offset, LEAST_VARIANCE), out=delta[:, 0])
    delta[:, 0] *= factors
    distance = bounded(sample, mean, bound)
    distance -= mean
    spread = _spread_gradient(std, variance, distance, offset)
    spread *= factors
    # softplus' = sigmoid = 1 - e^(-softplus)
    spread *= -np.expm1(-std)
    delta[:, 1] = spread
    loss = 0.5 * float(np.add.reduce(np.square(error), axis=None)) / error.size
    absolute: F32 = np.add.reduce(np.abs(error, out=error), axis=0)
    absolute *= np.float32(1.0 / members)
    metrics = {
        "critic_loss": loss,
        "value": float(np.add.reduce(mean[0])) / rows,
        "value_std": float(np.add.reduce(std[0])) / rows,
    }
    return Losses(absolute, metrics)


def _spread_gradient(std: F32, variance: F32, distance: F32, offset: float | np.float32) -> F32:
    """``d std`` of `distribution_gradient`, ``[M, N]``, but for scale and weights.

    ``distance [M, N]`` is how far bounded samples are from the mean; it is destroyed.
    """
    np.subtract(variance, np.square(distance), out=distance)
    cubic = variance * std
    cubic += offset
    np.divide(distance, np.maximum(cubic, LEAST_VARIANCE**1.5), out=distance)
    return distance
