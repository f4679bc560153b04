"""The networks of policies that learn from replay: from observations to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Normalization, Scaling
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.replay.vectors import Layout
from fast_core.spec import EnvironmentSpec


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


def take_statistics(
    parameters: list[Array], how: Normalization | None, encoder: ObservationEncoder
) -> Scaling | None:
    """Remove the statistics of observations, which come last, from an actor's parameters.

    Args:
        parameters: As they travel.
        how: None where there are no statistics.
        encoder: Of the observations; counts them from the origin that comes with them.
    """
    if how is None:
        return None
    origin = np.array(parameters.pop(), np.float32) if how.centred else None
    if origin is not None:
        encoder.centre(origin)
    inverse_std, mean = (np.array(parameters.pop(), np.float32) for _ in range(2))
    return Scaling(mean, inverse_std, how.limit, origin)


class NumpyActor:
    """An MLP in NumPy; implements `Actor`.

    Args:
        shape: The network, of one member.
        environment: What it acts in.
        how: How observations are normalised; None where they are not.
    """

    def __init__(
        self, shape: MlpShape, environment: EnvironmentSpec, how: Normalization | None = None
    ) -> None:
        layout = actor_layout(None, shape)
        self.encoder = ObservationEncoder(environment, ())
        self._flat: F32 = np.zeros(layout.size, np.float32)
        self._views = [p.view(self._flat) for p in layout.parameters]
        self._network = NumpyMlp(shape, layout.parameters, self._flat)
        self._how = how
        self._scaling: Scaling | None = None

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        networks = list(parameters)
        self._scaling = take_statistics(networks, self._how, self.encoder)
        for target, source in zip(self._views, networks, strict=True):
            target[...] = source

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        output: F32 = self._network.forward(self.seen(obs).T)[0]
        return output

    def seen(self, obs: Array) -> F32:
        """The numbers of observations as networks take them, ``[B, in]``."""
        rows = self.encoder.vector(obs)
        return rows if self._scaling is None else self._scaling(rows)
