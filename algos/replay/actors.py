"""The networks of policies that learn from replay: from observations to outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from fast_core.algorithm import Array
from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32
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
        """Use these parameters from now on, convolutions first; they are copied."""
        ...

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        ...


def actor_layout(encoder: EncoderShape | None, shape: MlpShape) -> Layout:
    """The parameters of an actor, in the order in which they travel."""
    layout = Layout()
    if encoder is not None:
        layout.add_encoder("encoder", encoder, target=False)
    layout.add_network("policy", shape, target=False)
    return layout


class NumpyActor:
    """An MLP in NumPy; implements `Actor`."""

    def __init__(self, shape: MlpShape, environment: EnvironmentSpec) -> None:
        layout = actor_layout(None, shape)
        self.encoder = ObservationEncoder(environment, ())
        self._flat: F32 = np.zeros(layout.size, np.float32)
        self._views = [p.view(self._flat) for p in layout.parameters]
        self._network = NumpyMlp(shape, layout.parameters, self._flat)

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on; they are copied."""
        for target, source in zip(self._views, parameters, strict=True):
            target[...] = source

    def output(self, obs: Array) -> F32:
        """The output ``[out, B]`` for observations ``[B, ...]``."""
        output: F32 = self._network.forward(self.encoder.vector(obs).T)[0]
        return output
