"""Advantage actor-critic as a user would add it: `fastloop launch examples/a2c_cartpole.yaml`.

This file is imported by the launcher and by every node, so it imports no torch; what learns
stands in `examples/a2c_learner.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from fast_core.algorithm import (
    ActionOutput,
    Algorithm,
    Array,
    LearnerSetup,
    Policy,
    PolicySetup,
    Thinker,
    Thoughts,
)
from fast_core.config import AlgorithmConfig, Count
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec, FieldSpec


class A2CConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """The keys under `algorithm`, and what a run must know before it starts.

    Source: Mnih et al. 2016, arXiv:1602.01783.
    """

    hidden: Annotated[Count, Meta(description="Units of the hidden layer.")] = 64
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of Adam.")] = 7e-3
    gamma: Annotated[float, Meta(gt=0, le=1, description="Discount of a step.")] = 0.98
    value_weight: Annotated[float, Meta(ge=0, description="Weight of the value loss.")] = 0.5
    entropy_weight: Annotated[float, Meta(ge=0, description="Weight of the entropy.")] = 0.003

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Refuse what this algorithm can't do, before anything starts."""
        if environment.observation.kind != "box" or environment.action.kind != "discrete":
            raise ConfigError(
                "examples.a2c takes box observations and discrete actions; got "
                f"{environment.observation.kind} and {environment.action.kind}."
            )
        if environment.frames > 1:  # the learner reads `obs`; with `take_obs` it would see stacks
            raise ConfigError(
                "examples.a2c takes single observations; got environment.frame_stack "
                f"{environment.frames}. Set it to 1."
            )

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """What travels from the learner to the policies, in this order."""
        inputs, actions = environment.observation.size, environment.action.n
        return (
            FieldSpec("hidden.weight", (self.hidden, inputs), "float32"),
            FieldSpec("hidden.bias", (self.hidden,), "float32"),
            FieldSpec("head.weight", (actions, self.hidden), "float32"),
            FieldSpec("head.bias", (actions,), "float32"),
        )

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps for one round of ``rows`` rows."""
        return 1

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """What acts; in the env nodes, the evaluator, or a policy node."""
        return A2CPolicy(environment.action.start)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """What learns; in the optimizer node alone, so this is where torch is imported."""
        from examples.a2c_learner import A2CLearner

        return A2CLearner(self, environment, setup)

    def policy_module(self, environment: EnvironmentSpec, parameters: Sequence[Array]) -> object:
        """What `fastloop export` writes."""
        from examples.a2c_learner import A2CModule

        return A2CModule(parameters, environment.action.start)

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """What only the page that shows a run needs: the network of values."""
        inputs = environment.observation.size
        return (
            FieldSpec("value.hidden.weight", (self.hidden, inputs), "float32"),
            FieldSpec("value.hidden.bias", (self.hidden,), "float32"),
            FieldSpec("value.head.weight", (1, self.hidden), "float32"),
            FieldSpec("value.head.bias", (1,), "float32"),
        )

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker:
        """What says what the policy thinks; in the page's process."""
        return A2CThinker()


class A2CPolicy:
    """One hidden layer in NumPy; no process that only acts has to import torch."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._parameters: Sequence[Array] = ()

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters, as `A2CConfig.policy_fields` orders them."""
        self._parameters = parameters

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Draw one action per row with one uniform number each, or take the likeliest."""
        weight, bias, head_weight, head_bias = self._parameters
        hidden = np.tanh(obs.reshape(len(obs), -1) @ weight.T + bias)
        logits = hidden @ head_weight.T + head_bias
        logits -= logits.max(axis=1, keepdims=True)
        log_prob = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        if explore:
            below = np.exp(log_prob).cumsum(axis=1) <= noise[:, None]
            action = np.minimum(below.sum(axis=1), log_prob.shape[1] - 1)
        else:
            action = log_prob.argmax(axis=1)
        chosen = np.take_along_axis(log_prob, action[:, None], axis=1)[:, 0]
        return ActionOutput(action, chosen)

    def environment_action(self, action: Array) -> Array:
        """Stored actions count from 0, the environment's from its first choice."""
        return action + self._start


class A2CThinker:
    """Value and probabilities of one observation."""

    def load(self, parameters: Sequence[Array]) -> None:
        """As `A2CConfig.policy_fields` orders them, then as `A2CConfig.insight_fields` does."""
        self._policy, self._value = parameters[:4], parameters[4:]

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """Of ``obs [1, ...]``; the action that was taken and a state don't matter here."""
        logits = two_layers(self._policy, obs)[0]
        chances = np.exp(logits - logits.max())
        value = two_layers(self._value, obs)[0, 0]
        return Thoughts(float(value), probabilities=[chances / chances.sum()])


def two_layers(parameters: Sequence[Array], obs: Array) -> Array:
    """What a network with one hidden layer puts out, ``[B, outputs]``."""
    weight, bias, head_weight, head_bias = parameters
    hidden = np.tanh(obs.reshape(len(obs), -1) @ weight.T + bias)
    outputs: Array = hidden @ head_weight.T + head_bias
    return outputs
