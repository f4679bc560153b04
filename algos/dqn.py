"""DQN's learner, with double targets and dueling streams.

Sources: Mnih et al. 2015, Nature 518; van Hasselt et al. 2015, arXiv:1509.06461 (double); Wang et
al. 2015, arXiv:1511.06581 (dueling); Schaul et al. 2015, arXiv:1511.05952 (weights and
priorities, which come with the batch and go with the report).
"""

from __future__ import annotations

import numpy as np

from algos.distributions import FORBIDDEN
from algos.dqn_settings import DQNSettings
from algos.networks import F32
from algos.observations import Bool
from algos.replay_learner import Losses, ReplayLearner, numbers
from algos.vectors import Layout
from fast_core.algorithm import LearnerSetup, ReplayBatch
from fast_core.spec import EnvironmentSpec


class DQN(ReplayLearner):
    """Deep Q-learning; implements `fast_core.algorithm.Algorithm`.

    Args:
        settings: Hyper-parameters.
        environment: What is learned; `DQNConfig.check` has accepted it.
        setup: The run.
    """

    def __init__(
        self, settings: DQNSettings, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        layout = Layout()
        layout.add_network("critics", settings.shape(environment), target=True)
        super().__init__(settings, environment, layout, setup)
        self._dqn = settings
        self._network = self._vectors.network("critics")
        self._target_network = self._vectors.target_network("critics")

    def _compute(self, batch: ReplayBatch) -> Losses:
        rows, double = len(batch.reward), self._dqn.double
        obs, next_obs = self._encoder.vector(batch.obs).T, self._encoder.vector(batch.next_obs).T
        # One pass serves the observations and, with double targets, the next ones.
        x: F32 = np.concatenate([obs, next_obs], axis=1) if double else obs
        output = self._network.forward(x)[0]
        value = action_values(output, dueling=self._dqn.dueling)
        mask = self._encoder.mask(batch.next_obs)
        target = self._target(batch, next_obs, value[:, rows:], mask)
        chosen = batch.action.astype(np.int64, copy=False)
        columns = np.arange(rows)
        error: F32 = value[chosen, columns] - target
        clipped = error
        if self._dqn.huber_threshold is not None:
            limit = np.float32(self._dqn.huber_threshold)
            clipped = np.minimum(np.maximum(error, -limit), limit)
        slope = clipped * numbers(batch.weight)
        loss = float(np.add.reduce(slope * (error - np.float32(0.5) * clipped))) / rows
        slope *= np.float32(1.0 / rows)
        delta: F32 = np.zeros_like(value)
        delta[chosen, columns] = slope
        outputs = value_gradient(delta, dueling=self._dqn.dueling)
        self._network.backward(outputs[None], rows=rows)
        metrics = {
            "critic_loss": loss,
            "value": float(np.add.reduce(value[:, :rows].max(axis=0))) / rows,
            "epsilon": self._exploration(),
        }
        return Losses(np.abs(error), metrics)

    def _target(self, batch: ReplayBatch, next_obs: F32, online: F32, mask: Bool | None) -> F32:
        """Targets ``[N]``.

        Args:
            batch: With rewards and discounts.
            next_obs: ``[in, N]``.
            online: ``[A, N]``, the online network's values of the next actions; not used without
                double targets.
            mask: ``[N, A]``, which next actions are allowed; None where all are.
        """
        value = action_values(self._target_network.forward(next_obs)[0], dueling=self._dqn.dueling)
        judge = online if self._dqn.double else value
        if mask is not None:
            judge = np.where(mask.T, judge, np.float32(FORBIDDEN))
        best = judge.argmax(axis=0)
        target: F32 = value[best, np.arange(len(best))]
        target *= numbers(batch.discount)
        target += numbers(batch.reward)
        return target

    def _step(self, policy: bool) -> None:
        self._vectors.step("critics", self._dqn.learning_rate)
        if (self._updates + 1) % self._dqn.target_interval == 0:
            self._vectors.follow(self._dqn.target_rate)

    def _exploration(self) -> float:
        """The share of random actions, by the env steps behind the last batch."""
        settings = self._dqn
        if self._updates == 0:
            return 1.0 if settings.random_warmup else settings.epsilon_initial
        share = min(1.0, self._env_steps / settings.epsilon_steps)
        return settings.epsilon_initial + share * (
            settings.epsilon_final - settings.epsilon_initial
        )


def action_values(output: F32, *, dueling: bool) -> F32:
    """Values ``[A, N]`` of choices.

    Dueling outputs are ``[1 + A, N]``, joined by equation 9 of Wang et al.
    """
    if not dueling:
        return output
    advantage = output[1:]
    values: F32 = advantage - advantage.mean(axis=0)
    values += output[0]
    return values


def value_gradient(delta: F32, *, dueling: bool) -> F32:
    """The gradient with respect to the outputs, from that of `action_values`."""
    if not dueling:
        return delta
    total = np.add.reduce(delta, axis=0)
    outputs: F32 = np.empty((len(delta) + 1, delta.shape[1]), np.float32)
    outputs[0] = total
    np.subtract(delta, total / np.float32(len(delta)), out=outputs[1:])
    return outputs
