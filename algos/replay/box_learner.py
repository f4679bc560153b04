"""One update of an actor-critic in boxes; algorithms differ in targets and critics' losses."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from fast_core.algorithm import LearnerSetup, ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.networks import F32
from fast_core.algos.replay.box_blueprint import BoxBlueprint
from fast_core.algos.replay.critic_batch import numbers
from fast_core.algos.replay.learner import Losses, NumpyLearner


class BoxLearner(NumpyLearner[BoxBlueprint]):
    """Critics on stored actions, and a policy that follows their slope at its own.

    Args:
        settings: Hyper-parameters and network shapes.
        environment: What is learned; `BoxBlueprint.check` has accepted it.
        setup: The run.
    """

    judging: ClassVar[tuple[str, ...]] = ("critics",)

    def __init__(
        self, settings: BoxBlueprint, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(settings, environment, setup)
        self._critics = self._vectors.network("critics")
        self._target_critics = self._vectors.target_network("critics")
        self._policy = self._vectors.network("policy")

    def _learn(self, batch: ReplayBatch) -> Losses:
        inputs, rows = self._inputs, len(batch.reward)
        inputs.fill(batch)
        target = self._next_value()
        target *= numbers(batch.discount)
        target += numbers(batch.reward)
        if not self._policy_is_due:
            value = self._critics.forward(inputs.stored)
            delta: F32 = np.zeros_like(value)
            losses = self._critic_losses(value, target, numbers(batch.weight), delta)
            self._critics.backward(delta, rows=rows)
            return losses
        # One pass of the critics serves the stored actions and the policy's.
        action = self._act(self._policy.forward(inputs.obs)[0])
        value = self._critics.forward(inputs.with_action(action))
        delta = np.zeros_like(value)
        stored, own = slice(None, rows), slice(rows, None)
        losses = self._critic_losses(
            value[:, :, stored], target, numbers(batch.weight), delta[:, :, stored]
        )
        policy_value = self._policy_value(value[:, 0, own], delta[:, 0, own])
        slope = self._critics.backward(delta, rows=rows, inputs=inputs.action_rows)
        assert slope is not None, "gradients of the actions were asked for"
        gradient = self._policy_gradient(slope, policy_value, losses.metrics)
        self._policy.backward(gradient[None], rows=rows)
        return losses

    def _step(self, policy: bool) -> None:
        settings = self.settings
        self._step_network("critics", settings.learning_rate)
        if policy:
            rate = settings.policy_learning_rate or settings.learning_rate
            self._step_network("policy", rate)
            self._vectors.follow(settings.target_rate)

    @abstractmethod
    def _next_value(self) -> F32:
        """What targets take the next observations for, ``[..., N]``; an array of their own."""

    def _critic_losses(self, value: F32, target: F32, weight: F32, delta: F32) -> Losses:
        """Differentiate the critics' loss, by default `squared_errors`.

        Args:
            value: ``[M, out, N]``, what critics say of the stored actions; may be changed.
            target: ``[..., N]``, what they should say.
            weight: ``[N]``, importance weights.
            delta: ``[M, out, N]`` zeros, where the gradient goes.
        """
        return squared_errors(value[:, 0], target, weight, delta[:, 0])

    @abstractmethod
    def _act(self, output: F32) -> F32:
        """The policy's actions ``[A, N]`` from its output ``[out, N]``."""

    def _policy_value(self, value: F32, delta: F32) -> float:
        """Differentiate minus the mean of the least value, ``[M, N]``, and return the mean."""
        return least_value(value, delta)

    @abstractmethod
    def _policy_gradient(self, slope: F32, value: float, metrics: dict[str, float]) -> F32:
        """The gradient ``[out, N]`` of the policy's loss with respect to its output.

        Args:
            slope: ``[A, N]``, gradient of minus the value with respect to the actions.
            value: The mean of `_policy_value`.
            metrics: Take what the policy has to say.
        """


def least_value(value: F32, delta: F32) -> float:
    """Gradient of minus the mean over rows of the least value of ``M`` critics.

    Args:
        value: ``[M, N]``.
        delta: ``[M, N]`` zeros, where the gradient goes.

    Returns:
        The mean.
    """
    members, rows = value.shape
    share = np.float32(-1.0 / rows)
    if members == 1:
        delta[0] = share
        return float(value.mean())
    np.put_along_axis(delta, value.argmin(axis=0)[None], share, axis=0)
    least: F32 = np.minimum.reduce(value, axis=0)
    return float(least.mean())


def mean_value(value: F32, delta: F32) -> float:
    """The same for the mean of the critics, as REDQ has it."""
    delta[...] = np.float32(-1.0 / value.size)
    return float(value.mean())


def squared_errors(value: F32, target: F32, weight: F32, delta: F32) -> Losses:
    """Half the weighted mean squared error of every critic, summed over critics.

    Args:
        value: ``[M, N]``.
        target: ``[N]``.
        weight: ``[N]``, importance weights.
        delta: ``[M, N]``, where the gradient goes.
    """
    members, rows = value.shape
    error = value - target
    np.multiply(error, weight, out=delta)
    loss = 0.5 * float(np.add.reduce(error * delta, axis=None)) / error.size
    np.multiply(delta, np.float32(1.0 / rows), out=delta)
    absolute: F32 = np.add.reduce(np.abs(error, out=error), axis=0)
    absolute *= np.float32(1.0 / members)
    mean = float(np.add.reduce(value[0])) / rows
    return Losses(absolute, {"critic_loss": loss, "value": mean})
