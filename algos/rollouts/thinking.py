"""What an actor-critic thinks of one observation: both of its heads, free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fast_core.algorithm import Array, Backend, Thoughts
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.action_map import ActionMap, in_units
from fast_core.algos.nets.distributions import probabilities
from fast_core.algos.nets.mlp import Head, make_torso
from fast_core.algos.nets.networks import F32, NetworkShape, parameter_layout
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.policy_inputs import PolicyInputs
from fast_core.algos.nets.recurrent_cells import Memory
from fast_core.system.importing import own

_HEADS: dict[Backend, str] = {
    "numpy": "fast_core.algos.rollouts.thinking:NumpyHeads",
    "torch": "fast_core.algos.rollouts.torch_thinking:TorchHeads",
}


class Heads(Protocol):
    """The forward pass of a whole actor-critic over a flat vector."""

    def loaded(self) -> None:
        """Take note that the vector has changed."""
        ...

    def __call__(
        self, vector: F32, images: Sequence[Array], state: Array | None
    ) -> tuple[F32, F32]:
        """The policy head's output ``[A, B]`` and values ``[B]``.

        Args:
            vector: ``[B, in]``, numbers as the network takes them.
            images: ``[B, stack, ...]`` uint8 of each image.
            state: ``[B, S]``, what a network with memory remembers; None without.
        """
        ...


class NumpyHeads:
    """Both heads of an MLP in NumPy; implements `Heads`."""

    def __init__(self, shape: NetworkShape, flat: F32) -> None:
        views = {p.name: p.view(flat) for p in parameter_layout(shape)}
        self._torsos = [make_torso(shape, flat, torso) for torso in (0, -1)]
        self._memory = None if shape.memory is None else Memory(shape.memory, views)
        self._policy, self._value = (Head(name, views) for name in ("policy", "value"))

    def loaded(self) -> None:
        """Nothing: everything is read where it lies."""

    def __call__(
        self, vector: F32, images: Sequence[Array], state: Array | None
    ) -> tuple[F32, F32]:
        """See `Heads`."""
        features = [torso.forward(vector.T)[0] for torso in self._torsos]
        if self._memory is not None:
            assert state is not None, "a network with memory is given its state"
            hidden, _ = self._memory.step(features[0], np.asarray(state, np.float32))
            features = [hidden, hidden]
        return self._policy.forward(features[0]), self._value.forward(features[1])[0]


class ActorCriticThinker:
    """Implements `fast_core.algorithm.Thinker`.

    Args:
        shape: The actor-critic.
        environment: What it acts in.
        backend: Library of its forward pass.
        how: How observations are normalised; None where they are not.
        scaled: Whether values are of rewards divided by a running deviation, which comes last.
    """

    def __init__(
        self,
        shape: NetworkShape,
        environment: EnvironmentSpec,
        backend: Backend,
        *,
        how: Normalization | None,
        scaled: bool,
    ) -> None:
        layout = parameter_layout(shape)
        flat: F32 = np.zeros(layout[-1].end, np.float32)
        self._shape = shape
        self._heads: Heads = own(_HEADS[backend])(shape, flat)
        self._inputs = PolicyInputs(environment, shape.images, how)
        acting = [p.view(flat) for p in layout if p.belongs_to_policy]
        judging = [p.view(flat) for p in layout if not p.belongs_to_policy]
        self._scale: F32 = np.ones(1, np.float32)
        self._targets = [*acting, *judging, *([self._scale] if scaled else [])]
        self._acting = len(acting) + self._inputs.statistics
        self._log_std = next((p.view(flat) for p in layout if p.name == "policy.log_std"), None)
        self._map = ActionMap(environment.action, stretch=shape.stretched)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        acting, rest = parameters[: self._acting], parameters[self._acting :]
        for target, source in zip(self._targets, [*self._inputs.take(acting), *rest], strict=True):
            target[...] = source
        self._heads.loaded()

    def think(self, obs: Array, action: Array, state: Array | None) -> Thoughts:
        """Value, and probabilities or mean and deviation; see `fast_core.algorithm.Thinker`."""
        encoder = self._inputs.encoder
        output, value = self._heads(self._inputs.numbers(obs), encoder.images(obs), state)
        expected = float(value[0]) / float(self._scale[0])
        if self._log_std is not None:
            mean, std = in_units(self._map, output[:, 0], np.exp(self._log_std))
            return Thoughts(expected, mean=mean, std=std)
        mask = encoder.mask(obs)
        counts = self._shape.choices or (len(output),)
        chances = probabilities(output, counts, None if mask is None else mask.T)
        return Thoughts(expected, [each[:, 0] for each in chances])
