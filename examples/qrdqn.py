"""Quantile regression DQN as an algorithm of one's own that learns from replay.

Blueprint and policy. Source: Dabney et al. 2018, arXiv:1710.10044.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from fast_core.algorithm import (
    ActionOutput,
    Algorithm,
    Array,
    LearnerSetup,
    NoiseSpec,
    Policy,
    PolicySetup,
    ReplaySpec,
)
from fast_core.config import AlgorithmConfig, Count
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec, FieldSpec


class QRDQNConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """The keys under `algorithm`, and what a run must know before it starts."""

    learns_from: ClassVar[Literal["rollouts", "replay"]] = "replay"

    hidden: Annotated[Count, Meta(description="Units of the hidden layer.")] = 128
    quantiles: Annotated[Count, Meta(description="Quantiles of each action's return.")] = 16
    batch_size: Annotated[Count, Meta(description="Rows of one optimizer step.")] = 64
    n_step: Annotated[Count, Meta(description="Steps of a window.")] = 5
    gamma: Annotated[float, Meta(ge=0, le=1, description="Discount of a step.")] = 0.98
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of Adam.")] = 2e-3
    target_rate: Annotated[float, Meta(gt=0, le=1, description="How targets follow.")] = 0.03
    epsilon: Annotated[float, Meta(ge=0, le=1, description="Share of random actions.")] = 0.05

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Refuse what this algorithm can't do, before anything starts."""
        if environment.observation.kind != "box" or environment.action.kind != "discrete":
            raise ConfigError(
                "examples.qrdqn takes box observations and discrete actions; got "
                f"{environment.observation.kind} and {environment.action.kind}."
            )

    def replay(self) -> ReplaySpec:
        """What one optimizer step draws."""
        return ReplaySpec(self.batch_size, self.n_step, self.gamma)

    def noise(self, environment: EnvironmentSpec) -> NoiseSpec:
        """Two uniform numbers for each action: whether it is random, and which."""
        return NoiseSpec("uniform", (2,))

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """What travels from the learner to the policies, in this order."""
        inputs, outputs = environment.observation.size, environment.action.n * self.quantiles
        return (
            FieldSpec("hidden.weight", (self.hidden, inputs), "float32"),
            FieldSpec("hidden.bias", (self.hidden,), "float32"),
            FieldSpec("head.weight", (outputs, self.hidden), "float32"),
            FieldSpec("head.bias", (outputs,), "float32"),
            FieldSpec("exploration", (1,), "float32"),
        )

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """What acts."""
        return QRDQNPolicy(environment.action.n, environment.action.start)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """What learns."""
        from examples.qrdqn_learner import QRDQNLearner

        return QRDQNLearner(self, environment, setup)


class QRDQNPolicy:
    """The action of greatest mean return, or with the probability ``exploration`` any."""

    def __init__(self, choices: int, start: int) -> None:
        self._choices, self._start = choices, start
        self._parameters: Sequence[Array] = ()

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters, as `QRDQNConfig.policy_fields` orders them."""
        self._parameters = parameters

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose an action for each row."""
        weight, bias, head_weight, head_bias, exploration = self._parameters
        hidden = np.maximum(obs.reshape(len(obs), -1) @ weight.T + bias, 0)
        quantiles = hidden @ head_weight.T + head_bias
        best = quantiles.reshape(len(obs), self._choices, -1).mean(axis=2).argmax(axis=1)
        epsilon = float(exploration[0]) if explore else 0.0
        any_choice = np.minimum((noise[:, 1] * self._choices).astype(np.int64), self._choices - 1)
        action = np.where(noise[:, 0] < epsilon, any_choice, best)
        probability = epsilon / self._choices + (1 - epsilon) * (action == best)
        return ActionOutput(action, np.log(probability).astype(np.float32))

    def environment_action(self, action: Array) -> Array:
        """Stored actions count from 0, the environment's from its first choice."""
        return action + self._start
