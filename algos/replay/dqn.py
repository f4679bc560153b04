"""DQN's learner, with double targets and dueling streams.

Sources: Mnih et al. 2015, Nature 518; van Hasselt et al. 2015, arXiv:1509.06461 (double); Wang et
al. 2015, arXiv:1511.06581 (dueling); Schaul et al. 2015, arXiv:1511.05952 (weights and
priorities, which come with the batch and go with the report).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fast_core.algorithm import LearnerSetup, ReplayBatch
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.distributions import FORBIDDEN
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import Bool
from fast_core.algos.replay.critic_batch import numbers
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.learner import Losses, NumpyLearner


class DQN(NumpyLearner[DQNConfig]):
    """Deep Q-learning; implements `fast_core.algorithm.Algorithm`.

    Args:
        settings: Hyper-parameters.
        environment: What is learned; `DQNConfig.check` has accepted it.
        setup: The run.
    """

    acting: ClassVar[tuple[str, ...]] = ("critics",)

    def __init__(
        self, settings: DQNConfig, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(settings, environment, setup)
        self._network = self._vectors.network("critics")
        self._target_network = self._vectors.target_network("critics")

    def _learn(self, batch: ReplayBatch) -> Losses:
        rows, inputs, dueling = len(batch.reward), self._inputs, self.settings.dueling
        inputs.fill(batch)
        # One pass serves the observations and, with double targets, the next ones.
        output = self._network.forward(inputs.with_next() if self.settings.double else inputs.obs)
        value = action_values(output, dueling=dueling)
        mask = self._encoder.mask(batch.next_obs)
        target = self._target(batch, value[:, rows:], mask)
        chosen = batch.action.astype(np.int64, copy=False)
        columns = np.arange(rows)
        error: F32 = value[chosen, columns] - target
        clipped = error
        if self.settings.huber_threshold is not None:
            limit = np.float32(self.settings.huber_threshold)
            clipped = np.minimum(np.maximum(error, -limit), limit)
        slope = clipped * numbers(batch.weight)
        loss = float(np.add.reduce(slope * (error - np.float32(0.5) * clipped))) / rows
        slope *= np.float32(1.0 / rows)
        delta: F32 = np.zeros_like(value)
        delta[chosen, columns] = slope
        self._network.backward(value_gradient(delta, output, dueling=dueling), rows=rows)
        metrics = {
            "critic_loss": loss,
            "value": float(np.add.reduce(value[:, :rows].max(axis=0))) / rows,
            "epsilon": self._exploration(),
        }
        return Losses(np.abs(error), metrics)

    def _target(self, batch: ReplayBatch, online: F32, mask: Bool | None) -> F32:
        """Targets ``[N]``.

        Args:
            batch: With rewards and discounts.
            online: ``[A, N]``, the online network's values of the next actions; not used without
                double targets.
            mask: ``[N, A]``, which next actions are allowed; None where all are.
        """
        output = self._target_network.forward(self._inputs.next_obs)
        value = action_values(output, dueling=self.settings.dueling)
        judge = online if self.settings.double else value
        if mask is not None:
            judge = np.where(mask.T, judge, np.float32(FORBIDDEN))
        best = judge.argmax(axis=0)
        target: F32 = value[best, np.arange(len(best))]
        target *= numbers(batch.discount)
        target += numbers(batch.reward)
        return target

    def _step(self, policy: bool) -> None:
        self._step_network("critics", self.settings.learning_rate)
        if (self._updates + 1) % self.settings.target_interval == 0:
            self._vectors.follow(self.settings.target_rate)


def action_values(output: F32, *, dueling: bool) -> F32:
    """Values ``[A, N]`` of choices, from what the network puts out.

    Outputs are ``[1, A, N]``; with dueling ``[1, 1 + A, N]``, or ``[2, A, N]`` from two streams, of
    which the first puts out one value and ``A - 1`` numbers without meaning. Both are joined by
    equation 9 of Wang et al.
    """
    if not dueling:
        plain: F32 = output[0]
        return plain
    advantage = output[1] if len(output) == 2 else output[0, 1:]
    values: F32 = advantage - advantage.mean(axis=0)
    values += output[0, 0]
    return values


def value_gradient(delta: F32, output: F32, *, dueling: bool) -> F32:
    """The gradient with respect to ``output``, from that of `action_values`, ``[A, N]``."""
    if not dueling:
        return delta[None]
    total = np.add.reduce(delta, axis=0)
    outputs: F32 = np.empty_like(output)
    outputs[0, 0] = total
    np.subtract(delta, total / np.float32(len(delta)), out=outputs[0, 1:])
    return outputs
