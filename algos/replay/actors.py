"""The networks of policies that learn from replay: from observations to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.nets.policy_inputs import PolicyInputs, given
from fast_core.algos.nets.recurrent_cells import Memory
from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.replay.vectors import Layout

Remembering = tuple[F32, F32 | None]


class Actor(Protocol):
    """Networks that only act.

    Attributes:
        encoder: Takes their observations apart.
    """

    encoder: ObservationEncoder

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied.

        Convolutions come first, then a recurrent layer; mean and inverse deviation of observations,
        where they are normalised, last, and their origin behind them if there is one.
        """
        ...

    def output(self, obs: Array, state: Array | None = None) -> Remembering:
        """The output ``[out, B]`` for observations ``[B, ...]``, and what is remembered then.

        That is ``[B, S]`` as ``state`` was before, and None without memory.
        """
        ...


class Seeing(Actor, Protocol):
    """What an `Actor` of FastLoop's own networks has besides."""

    def seen(self, obs: Array, state: Array | None = None) -> F32:
        """What all networks get of observations, after convolutions and memory: ``[B, in]``."""
        ...


@runtime_checkable
class Exporting(Protocol):
    """What an `Actor` in torch has besides: it can leave FastLoop."""

    def exported(self, *, first: int) -> object:
        """What acts with the parameters that were loaded last, without exploration.

        See `fast_core.algorithm.Blueprint.policy_module`; ``first`` is the output that is the
        value of the first choice.
        """
        ...


def actor_layout(
    encoder: EncoderShape | None, memory: MemoryShape | None, shape: MlpShape
) -> Layout:
    """The parameters of an actor, in the order in which they travel."""
    layout = Layout()
    layout.add_below(encoder, memory, target=False)
    layout.add_network("policy", shape, target=False)
    return layout


class NumpyActor(PolicyInputs):
    """An MLP in NumPy, on a recurrent layer if there is one; implements `Actor`.

    Args:
        shape: The network, of one member.
        environment: What it acts in.
        how: How observations are normalised; None where they are not.
        memory: The recurrent layer.
    """

    def __init__(
        self,
        shape: MlpShape,
        environment: EnvironmentSpec,
        how: Normalization | None = None,
        memory: MemoryShape | None = None,
    ) -> None:
        super().__init__(environment, (), how)
        layout = actor_layout(None, memory, shape)
        self._flat: F32 = np.zeros(layout.size, np.float32)
        views = {p.name: p.view(self._flat) for p in layout.parameters}
        self._views = list(views.values())
        self._memory = None if memory is None else Memory(memory, views)
        policy = layout.groups["policy"].parameters
        self._network = NumpyMlp(shape, policy, self._flat)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        for target, source in zip(self._views, self.take(parameters), strict=True):
            target[...] = source

    def output(self, obs: Array, state: Array | None = None) -> Remembering:
        """See `Actor`."""
        seen, after = self._see(obs, state)
        output: F32 = self._network.forward(seen)[0]
        return output, after

    def seen(self, obs: Array, state: Array | None = None) -> F32:
        """See `Seeing`."""
        return self._see(obs, state)[0].T

    def _see(self, obs: Array, state: Array | None) -> Remembering:
        """What the network gets, ``[in, B]``, and what is remembered."""
        numbers = self.numbers(obs).T
        return (numbers, None) if self._memory is None else self._memory.step(numbers, given(state))
