"""Policies that act next to the environments: an MLP in NumPy, free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from fast_core.algorithm import ActionOutput, Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.nets.distributions import make_distribution
from fast_core.algos.nets.encoder_shape import no_convolutions
from fast_core.algos.nets.mlp import Head, make_torso
from fast_core.algos.nets.networks import F32, NetworkShape, parameter_layout
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.policy_inputs import PolicyInputs, given
from fast_core.algos.nets.recurrent_cells import Memory

Inputs = TypeVar("Inputs", bound=PolicyInputs)


class ActorPolicy(Generic[Inputs]):
    """What all policies of an actor-critic share; a subclass has the network.

    Args:
        shape: The actor-critic network; its value part is not used.
        environment: What it acts in.
        inputs: Takes observations. Statistics follow the network's
            parameters in `load`.
    """

    def __init__(self, shape: NetworkShape, environment: EnvironmentSpec, inputs: Inputs) -> None:
        self._inputs = inputs
        self._action_shape = environment.action.shape
        self._environment_action = ActionMap(environment.action, stretch=shape.stretched)
        self._layout = parameter_layout(shape)
        self._parameters = [p for p in self._layout if p.belongs_to_policy]
        self._flat: F32 = np.zeros(self._layout[-1].end, np.float32)
        self._views = {p.name: p.view(self._flat) for p in self._parameters}
        self._distribution = make_distribution(shape, self._views.get("policy.log_std"))

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        for target, source in zip(self._views.values(), self._inputs.take(parameters), strict=True):
            target[...] = source

    def act(
        self, obs: Array, *, noise: Array, explore: bool, state: Array | None = None
    ) -> ActionOutput:
        """Choose actions for ``obs [B, ...]``, remembering ``state [B, S]`` with memory.

        Raises:
            TypeError: There is memory, and no state.
        """
        output, after = self._output(obs, state)
        allowed = self._inputs.encoder.mask(obs)
        mask = None if allowed is None else allowed.T
        if explore:
            action, log_prob = self._distribution.sample(output, noise, mask)
        else:
            action, log_prob = self._distribution.mode(output, mask)
        return ActionOutput(action.reshape(len(obs), *self._action_shape), log_prob, after)

    def environment_action(self, action: Array) -> Array:
        """Stretch and clip to the box, or count from the space's first choices."""
        return self._environment_action(action)

    def _output(self, obs: Array, state: Array | None) -> tuple[F32, F32 | None]:
        """The policy head's output ``[A, B]``, and what is remembered after it."""
        raise NotImplementedError


class NumpyPolicy(ActorPolicy[PolicyInputs]):
    """The actor of an MLP actor-critic, with or without memory."""

    def __init__(
        self, shape: NetworkShape, environment: EnvironmentSpec, how: Normalization | None
    ) -> None:
        if shape.images:
            raise no_convolutions(environment)
        super().__init__(shape, environment, PolicyInputs(environment, (), how))
        self._torso = make_torso(shape, self._flat, 0)
        self._memory = None if shape.memory is None else Memory(shape.memory, self._views)
        self._head = Head("policy", self._views)

    def _output(self, obs: Array, state: Array | None) -> tuple[F32, F32 | None]:
        features: F32 = self._torso.forward(self._inputs.numbers(obs).T)[0]
        after = None
        if self._memory is not None:
            features, after = self._memory.step(features, given(state))
        return self._head.forward(features), after
