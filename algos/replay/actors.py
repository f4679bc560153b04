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
from fast_core.algos.nets.policy_inputs import PolicyInputs
from fast_core.algos.replay.vectors import Layout


class Actor(Protocol):
    """Networks that only act.

    Attributes:
        encoder: Takes their observations apart.
    """

    encoder: ObservationEncoder

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied.

        Convolutions come first; mean and inverse deviation of observations, where they are
        normalised, last, and their origin behind them if there is one.
        """
        ...

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        ...


class Seeing(Actor, Protocol):
    """What an `Actor` of FastLoop's own networks has besides."""

    def seen(self, obs: Array) -> F32:
        """What all networks get of observations, after convolutions: ``[B, in]``."""
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


def actor_layout(encoder: EncoderShape | None, shape: MlpShape) -> Layout:
    """The parameters of an actor, in the order in which they travel."""
    layout = Layout()
    if encoder is not None:
        layout.add_encoder("encoder", encoder, target=False)
    layout.add_network("policy", shape, target=False)
    return layout


class NumpyActor(PolicyInputs):
    """An MLP in NumPy; implements `Actor`.

    Args:
        shape: The network, of one member.
        environment: What it acts in.
        how: How observations are normalised; None where they are not.
    """

    def __init__(
        self, shape: MlpShape, environment: EnvironmentSpec, how: Normalization | None = None
    ) -> None:
        super().__init__(environment, (), how)
        layout = actor_layout(None, shape)
        self._flat: F32 = np.zeros(layout.size, np.float32)
        self._views = [p.view(self._flat) for p in layout.parameters]
        self._network = NumpyMlp(shape, layout.parameters, self._flat)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        for target, source in zip(self._views, self.take(parameters), strict=True):
            target[...] = source

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        output: F32 = self._network.forward(self.numbers(obs).T)[0]
        return output

    def seen(self, obs: Array) -> F32:
        """The numbers of observations as networks take them, ``[B, in]``."""
        return self.numbers(obs)
