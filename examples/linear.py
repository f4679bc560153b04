"""An actor-critic by hand, in NumPy alone: the three parts of an algorithm, without FastLoop's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from fast_core.algorithm import (
    ActionOutput,
    Algorithm,
    Array,
    LearnerSetup,
    Policy,
    PolicySetup,
    RolloutBatch,
    ShardRollout,
    Thinker,
    Thoughts,
    UpdateReport,
)
from fast_core.algorithm.spec import EnvironmentSpec, FieldSpec
from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError


class LinearConfig(AlgorithmConfig, frozen=True, kw_only=True):
    """The keys under `algorithm`, and what a run must know before it starts."""

    learning_rate: Annotated[float, Meta(gt=0, description="Step size of the policy.")] = 1.0
    gamma: Annotated[float, Meta(gt=0, le=1, description="Discount of a step.")] = 0.98

    def check(self, environment: EnvironmentSpec, setup: LearnerSetup) -> None:
        """Refuse what this algorithm can't do, before anything starts."""
        if environment.observation.kind != "box" or environment.action.kind != "discrete":
            raise ConfigError(
                "examples.linear takes box observations and discrete actions; got "
                f"{environment.observation.kind} and {environment.action.kind}."
            )
        if environment.frames > 1:  # the learner reads `obs`; with `take_obs` it would see stacks
            raise ConfigError(
                "examples.linear takes single observations; got environment.frame_stack "
                f"{environment.frames}. Set it to 1."
            )

    def policy_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """What travels from the learner to the policies, in this order."""
        size = environment.observation.size
        return (FieldSpec("policy", (size + 1, environment.action.n), "float32"),)

    def updates_granted(self, rows: int) -> int:
        """Optimizer steps for one round of ``rows`` rows."""
        return 1

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """What acts; in the env nodes, the evaluator, or a policy node."""
        return LinearPolicy(environment.action.start)

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        """What learns; in the optimizer node alone."""
        return LinearLearner(self, environment)

    def policy_module(self, environment: EnvironmentSpec, parameters: Sequence[Array]) -> object:
        """What `fastloop export` writes; it alone imports torch."""
        from examples.linear_module import LinearModule

        return LinearModule(parameters, environment.action.start)

    def insight_fields(self, environment: EnvironmentSpec) -> tuple[FieldSpec, ...]:
        """What only the page that shows a run needs: the weights of values."""
        return (FieldSpec("value", (2 * environment.observation.size + 1,), "float32"),)

    def make_thinker(self, environment: EnvironmentSpec) -> Thinker:
        """What says what the policy thinks; in the page's process."""
        return LinearThinker()


def log_probs(weights: Array, obs: Array) -> tuple[Array, Array]:
    """Log-probabilities of choices ``[B, A]``, and what the weights were multiplied with."""
    numbers = obs.reshape(len(obs), -1).astype(np.float32)
    inputs = np.concatenate([numbers, np.ones((len(obs), 1), np.float32)], axis=1)
    logits = inputs @ weights
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), inputs


def value_inputs(obs: Array) -> Array:
    """What values are linear in: numbers, their squares, and 1."""
    numbers = obs.reshape(len(obs), -1).astype(np.float32)
    return np.concatenate([numbers, np.square(numbers), np.ones((len(obs), 1))], axis=1)


class LinearPolicy:
    """One layer; it acts next to the environments."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._weights: Array = np.empty(0)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters, as `LinearConfig.policy_fields` orders them."""
        (self._weights,) = parameters

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Draw one action per row with one uniform number each, or take the likeliest."""
        log_prob, _ = log_probs(self._weights, obs)
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


class LinearLearner:
    """Implements `fast_core.algorithm.Algorithm`."""

    def __init__(self, config: LinearConfig, environment: EnvironmentSpec) -> None:
        self._config = config
        shape = (environment.observation.size + 1, environment.action.n)
        self._policy = np.zeros(shape, np.float32)
        self._value = np.zeros(2 * environment.observation.size + 1, np.float32)

    def update(self, batch: RolloutBatch) -> UpdateReport:
        """One step on all rows of the round."""
        rows = [self._rows(rollout) for rollout in batch.rollouts]
        obs, action, target = (np.concatenate(column) for column in zip(*rows, strict=True))
        inputs = value_inputs(obs)
        advantage = target - inputs @ self._value
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        log_prob, numbers = log_probs(self._policy, obs)
        push = np.eye(self._policy.shape[1])[action] - np.exp(log_prob)  # of each logit
        slope = numbers.T @ (push * advantage[:, None]) / len(obs)
        self._policy += (self._config.learning_rate * slope).astype(np.float32)
        square = inputs.T @ inputs + 1e-3 * np.eye(len(self._value))
        self._value[...] = np.linalg.solve(square, inputs.T @ target)
        error = float(np.square(inputs @ self._value - target).mean())
        return UpdateReport(updates=1, skipped=0, metrics={"value_loss": error})

    def _rows(self, rollout: ShardRollout) -> tuple[Array, Array, Array]:
        """Observations, actions and n-step value targets of a rollout, ``[T * B, ...]``."""
        steps, envs = rollout.reward.shape
        obs = np.array(rollout.obs).reshape((steps + 1) * envs, -1)
        following = (value_inputs(obs) @ self._value).reshape(steps + 1, envs)
        final = rollout.final_obs.reshape(steps * envs, -1)
        at_end = (value_inputs(final) @ self._value).reshape(steps, envs)
        target = np.empty((steps, envs))
        later = following[steps]
        for t in reversed(range(steps)):
            # Nothing follows where the task ended; where an episode was only cut off, what
            # would have followed is the value of its true last observation.
            later = np.where(rollout.truncated[t], at_end[t], later)
            later = np.where(rollout.terminated[t], 0.0, later)
            later = target[t] = rollout.reward[t] + self._config.gamma * later
        return obs[: steps * envs], np.array(rollout.action).reshape(-1), target.reshape(-1)

    def policy_parameters(self) -> Sequence[Array]:
        """As `LinearConfig.policy_fields` says."""
        return [self._policy]

    def insight_parameters(self) -> Sequence[Array]:
        """As `LinearConfig.insight_fields` says."""
        return [self._value]

    def state_dict(self) -> dict[str, object]:
        """Everything that changes while training."""
        return {"policy": self._policy.copy(), "value": self._value.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict`."""
        self._policy[...], self._value[...] = state["policy"], state["value"]


class LinearThinker:
    """Value and probabilities of one observation."""

    def load(self, parameters: Sequence[Array]) -> None:
        """As `LinearConfig.policy_fields` orders them, then as `insight_fields` does."""
        self._policy, self._value = parameters

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """Of ``obs [1, ...]``; the action that was taken and a state don't matter here."""
        log_prob, _ = log_probs(self._policy, obs)
        value = value_inputs(obs) @ self._value
        return Thoughts(float(value[0]), probabilities=[np.exp(log_prob[0])])
