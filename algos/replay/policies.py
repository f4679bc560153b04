"""Policies of the algorithms that learn from replay, free of torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fast_core.algorithm import ActionOutput, Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.distributions import FORBIDDEN, LOG_2PI
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.observations import I64, Bool
from fast_core.algos.nets.squashed_gaussian import SquashedGaussian
from fast_core.algos.replay.actors import Actor
from fast_core.algos.replay.box_actions import BoxActions


class ReplayPolicy:
    """Networks, and a number that says how much is explored.

    Attributes:
        actor: The networks.
    """

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self._exploration = 0.0

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        *networks, exploration = parameters
        self.actor.load(networks)
        self._exploration = float(exploration[0])


class BoxPolicy(ReplayPolicy):
    """Acts within [-1, 1]; uniformly at random while exploration is 1.

    Attributes:
        to_environment: Stretches stored actions over the box.
    """

    def __init__(self, actor: Actor, environment: EnvironmentSpec) -> None:
        super().__init__(actor)
        self._actions = BoxActions(environment)
        self.to_environment = self._actions.to_environment

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``."""
        rows, actions = len(obs), self._actions
        normal = np.asarray(noise, np.float32).reshape(rows, actions.size)
        if explore and self._exploration >= 1.0:
            action = actions.uniform(normal)
            log_prob = np.full(rows, actions.uniform_log_prob, np.float32)
            after = None if state is None else self.actor.output(obs, state)[1]
        else:
            output, after = self.actor.output(obs, state)
            action, log_prob = self._choose(output, normal, explore)
        return ActionOutput(action.reshape(rows, *actions.shape), log_prob, after)

    def environment_action(self, action: Array) -> Array:
        """Stretch stored actions over the box."""
        return self.to_environment(action)

    def spread(self, obs: Array, state: Array | None = None) -> tuple[F32, F32, F32]:
        """Of stored actions ``[A]`` for one row: without exploration, their mean and deviation."""
        output, _ = self.actor.output(obs, state)
        quiet, mean, std = self._spread(output[:, 0])
        if self._exploration >= 1.0:
            mean, std = np.zeros_like(mean), np.full_like(std, 1.0 / math.sqrt(3.0))
        return quiet, mean, std

    def _choose(self, output: F32, normal: F32, explore: bool) -> tuple[F32, F32]:
        """Actions ``[B, A]`` and their log-probabilities ``[B]``, by what the network put out."""
        raise NotImplementedError

    def _spread(self, output: F32) -> tuple[F32, F32, F32]:
        """`spread` of what the network puts out for a row, where it is asked."""
        raise NotImplementedError


class SquashedPolicy(BoxPolicy):
    """A squashed Gaussian."""

    def __init__(self, actor: Actor, environment: EnvironmentSpec) -> None:
        super().__init__(actor, environment)
        self._distribution = SquashedGaussian(self._actions.size)

    def _choose(self, output: F32, normal: F32, explore: bool) -> tuple[F32, F32]:
        noise = normal.T if explore else np.zeros_like(normal.T)
        action, log_prob = self._distribution.sample(output, noise)
        return action.T, log_prob

    def _spread(self, output: F32) -> tuple[F32, F32, F32]:
        mean, std = self._distribution.moments(output[:, None])
        quiet: F32 = np.tanh(output[: self._actions.size])
        return quiet, mean[:, 0], std[:, 0]


class DeterministicPolicy(BoxPolicy):
    """The squashed output of a network, with normal noise where it explores.

    Args:
        actor: The networks.
        environment: What it acts in.
        noise_std: Deviation of the noise, in halves of the box's width.
    """

    def __init__(self, actor: Actor, environment: EnvironmentSpec, noise_std: float) -> None:
        super().__init__(actor, environment)
        self._std = np.float32(noise_std)
        deviation = max(noise_std, float(np.finfo(np.float32).tiny))
        log_std = np.log(deviation) * self._actions.size
        self._constant = np.float32(-log_std - 0.5 * LOG_2PI * self._actions.size)

    def _choose(self, output: F32, normal: F32, explore: bool) -> tuple[F32, F32]:
        """The log-probability is that of the noise, before actions are clipped to the box."""
        action: F32 = np.tanh(output.T)
        if not explore:
            return action, np.full(len(action), self._constant, np.float32)
        action += self._std * normal
        np.minimum(np.maximum(action, np.float32(-1), out=action), np.float32(1), out=action)
        log_prob: F32 = np.add.reduce(np.square(normal), axis=1)
        log_prob *= np.float32(-0.5)
        log_prob += self._constant
        return action, log_prob

    def _spread(self, output: F32) -> tuple[F32, F32, F32]:
        """The deviation is that of the noise, before actions are clipped to the box."""
        action: F32 = np.tanh(output)
        return action, action, np.full_like(action, self._std)


class GreedyPolicy(ReplayPolicy):
    """The choice of largest value, or with the probability ``exploration`` any allowed one.

    Args:
        actor: The networks; they put out values or advantages.
        environment: What it acts in.
        first: Which output is that of the first choice; those before matter to no choice.
    """

    def __init__(self, actor: Actor, environment: EnvironmentSpec, *, first: int) -> None:
        super().__init__(actor)
        self._first = first
        self._map = ActionMap(environment.action)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``; the ``noise [B, 2]`` is uniform."""
        best, mask, after = self._judge(obs, state)
        if not explore:
            return ActionOutput(best, np.zeros(len(obs), np.float32), after)
        allowed = np.ones((self._map.space.n, len(obs)), np.bool_) if mask is None else mask
        counts = np.maximum(np.add.reduce(allowed, axis=0), 1)
        uniform = np.asarray(noise, np.float32).reshape(len(obs), 2)
        # The k-th allowed choice is the first with more than k allowed ones up to it.
        k = np.minimum((uniform[:, 1] * counts).astype(np.int64), counts - 1)
        any_allowed = (np.add.accumulate(allowed, axis=0, dtype=np.int64) > k).argmax(axis=0)
        epsilon = self._exploration
        action = np.where(uniform[:, 0] < epsilon, any_allowed, best)
        probability = epsilon / counts + (1.0 - epsilon) * (action == best)
        return ActionOutput(action, np.log(probability).astype(np.float32), after)

    def probabilities(self, obs: Array, state: Array | None = None) -> F32:
        """Of each choice for one row, ``[n]``."""
        best, mask, _ = self._judge(obs, state)
        choices = self._map.space.n
        allowed = np.ones(choices) if mask is None else mask[:, 0].astype(np.float64)
        if not allowed.any():
            allowed[0] = 1.0  # what `act` takes of none
        found = self._exploration * allowed / allowed.sum()
        found[best[0]] += 1.0 - self._exploration
        chances: F32 = found.astype(np.float32)
        return chances

    def _judge(self, obs: Array, state: Array | None) -> tuple[I64, Bool | None, F32 | None]:
        """The best choices ``[B]``, which are allowed (``[n, B]``, None: all), and the state."""
        output, after = self.actor.output(obs, state)
        values, mask = output[self._first :], self.actor.encoder.mask(obs)
        if mask is None:
            return values.argmax(axis=0), None, after
        best: I64 = np.where(mask.T, values, np.float32(FORBIDDEN)).argmax(axis=0)
        return best, mask.T, after

    def environment_action(self, action: Array) -> Array:
        """Count from the space's first choice."""
        return self._map(action)
