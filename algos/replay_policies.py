"""Policies of the algorithms that learn from replay: MLPs in NumPy, free of torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from algos.box_actions import BoxActions
from algos.distributions import FORBIDDEN, LOG_2PI
from algos.mlp import MlpShape, NumpyMlp
from algos.networks import F32
from algos.observations import ObservationEncoder
from algos.policies import ActionMap
from algos.squashed_gaussian import SquashedGaussian
from algos.vectors import Layout
from fast_core.algorithm import ActionOutput, Array, PolicySetup
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec


class MlpPolicy:
    """A network, and a number that says how much is explored."""

    def __init__(self, shape: MlpShape, environment: EnvironmentSpec, setup: PolicySetup) -> None:
        if setup.backend != "numpy":
            raise ConfigError(
                f"policy.backend must be auto or numpy for algorithms that learn from replay; got "
                f"{setup.backend!r}."
            )
        layout = Layout()
        layout.add_network("policy", shape, target=False)
        self._encoder = ObservationEncoder(environment, ())
        self._flat: F32 = np.zeros(layout.size, np.float32)
        self._views = [p.view(self._flat) for p in layout.parameters]
        self._network = NumpyMlp(shape, layout.parameters, self._flat)
        self._exploration = 0.0

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        *network, exploration = parameters
        for target, source in zip(self._views, network, strict=True):
            target[...] = source
        self._exploration = float(exploration[0])

    def _output(self, obs: Array) -> F32:
        """The network's output ``[out, B]`` for observations ``[B, ...]``."""
        output: F32 = self._network.forward(self._encoder.vector(obs).T)[0]
        return output


class BoxPolicy(MlpPolicy):
    """Acts within [-1, 1]; uniformly at random while exploration is 1."""

    def __init__(self, shape: MlpShape, environment: EnvironmentSpec, setup: PolicySetup) -> None:
        super().__init__(shape, environment, setup)
        self._actions = BoxActions(environment)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``."""
        rows, actions = len(obs), self._actions
        normal = np.asarray(noise, np.float32).reshape(rows, actions.size)
        if explore and self._exploration >= 1.0:
            action = actions.uniform(normal)
            log_prob = np.full(rows, actions.uniform_log_prob, np.float32)
        else:
            action, log_prob = self._choose(obs, normal, explore)
        return ActionOutput(action.reshape(rows, *actions.shape), log_prob)

    def environment_action(self, action: Array) -> Array:
        """Stretch stored actions over the box."""
        return self._actions.to_environment(action)

    def _choose(self, obs: Array, normal: F32, explore: bool) -> tuple[F32, F32]:
        """Actions ``[B, A]`` and their log-probabilities ``[B]``."""
        raise NotImplementedError


class SquashedPolicy(BoxPolicy):
    """A squashed Gaussian."""

    def __init__(self, shape: MlpShape, environment: EnvironmentSpec, setup: PolicySetup) -> None:
        super().__init__(shape, environment, setup)
        self._distribution = SquashedGaussian(self._actions.size, self._actions.log_scale)

    def _choose(self, obs: Array, normal: F32, explore: bool) -> tuple[F32, F32]:
        noise = normal.T if explore else np.zeros_like(normal.T)
        action, log_prob = self._distribution.sample(self._output(obs), noise)
        return action.T, log_prob


class DeterministicPolicy(BoxPolicy):
    """The squashed output of a network, with normal noise where it explores.

    Args:
        shape: The network.
        environment: What it acts in.
        setup: How it computes.
        noise_std: Deviation of the noise, in halves of the box's width.
    """

    def __init__(
        self,
        shape: MlpShape,
        environment: EnvironmentSpec,
        setup: PolicySetup,
        noise_std: float,
    ) -> None:
        super().__init__(shape, environment, setup)
        self._std = np.float32(noise_std)
        deviation = max(noise_std, float(np.finfo(np.float32).tiny))
        log_std = np.log(deviation) * self._actions.size
        self._constant = np.float32(
            -log_std - 0.5 * LOG_2PI * self._actions.size - self._actions.log_scale
        )

    def _choose(self, obs: Array, normal: F32, explore: bool) -> tuple[F32, F32]:
        """The log-probability is that of the noise, before actions are clipped to the box."""
        action: F32 = np.tanh(self._output(obs).T)
        if not explore:
            return action, np.full(len(obs), self._constant, np.float32)
        action += self._std * normal
        np.minimum(np.maximum(action, np.float32(-1), out=action), np.float32(1), out=action)
        log_prob: F32 = np.add.reduce(np.square(normal), axis=1)
        log_prob *= np.float32(-0.5)
        log_prob += self._constant
        return action, log_prob


class GreedyPolicy(MlpPolicy):
    """The choice of largest value, or with the probability ``exploration`` any allowed one.

    Args:
        shape: The network; its outputs are values, or a value and advantages.
        environment: What it acts in.
        setup: How it computes.
        dueling: Whether the network's first output is the value of the state, which matters to
            no choice.
    """

    def __init__(
        self, shape: MlpShape, environment: EnvironmentSpec, setup: PolicySetup, *, dueling: bool
    ) -> None:
        super().__init__(shape, environment, setup)
        self._first = int(dueling)
        self._map = ActionMap(environment.action)

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``; the ``noise [B, 2]`` is uniform."""
        values = self._output(obs)[self._first :]
        mask = self._encoder.mask(obs)
        if mask is not None:
            values = np.where(mask.T, values, np.float32(FORBIDDEN))
        best = values.argmax(axis=0)
        if not explore:
            return ActionOutput(best, np.zeros(len(obs), np.float32))
        allowed = np.ones(values.shape, np.bool_) if mask is None else mask.T
        counts = np.maximum(np.add.reduce(allowed, axis=0), 1)
        uniform = np.asarray(noise, np.float32).reshape(len(obs), 2)
        # The k-th allowed choice is the first with more than k allowed ones up to it.
        k = np.minimum((uniform[:, 1] * counts).astype(np.int64), counts - 1)
        any_allowed = (np.add.accumulate(allowed, axis=0, dtype=np.int64) > k).argmax(axis=0)
        epsilon = self._exploration
        action = np.where(uniform[:, 0] < epsilon, any_allowed, best)
        probability = epsilon / counts + (1.0 - epsilon) * (action == best)
        return ActionOutput(action, np.log(probability).astype(np.float32))

    def environment_action(self, action: Array) -> Array:
        """Count from the space's first choice."""
        return self._map(action)
