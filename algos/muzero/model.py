"""The three networks: their shapes, and as policies compute them, in NumPy.

The representation makes a latent state of what is observed; the dynamics makes, of that and an
action, the next one and the reward; the prediction says of a latent state which actions a search
would choose, and its value. Schrittwieser et al. 2020 call them h, g and f.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.muzero import _native
from fast_core.algos.muzero.support import Support
from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.layer_norm import EPSILON
from fast_core.algos.nets.mlp import MlpShape, NumpyMlp
from fast_core.algos.nets.networks import F32
from fast_core.algos.nets.normalizer import Normalization
from fast_core.algos.nets.observations import I64, ObservationEncoder
from fast_core.algos.nets.policy_inputs import PolicyInputs
from fast_core.algos.replay.vectors import Layout


@dataclass(frozen=True)
class ModelShape:
    """MLPs of equal hidden layers.

    Attributes:
        inputs: Numbers of an encoded observation.
        choices: Actions, ``A``.
        latent: Numbers of a latent state, ``D``.
        hidden_sizes: Widths of each network's hidden layers.
        values: Numbers that say a value, see `Support`.
        rewards: Numbers that say a reward.
        activation: What follows each hidden layer.
        layer_norm: Whether what each hidden layer puts out is normalised over its features.
    """

    inputs: int
    choices: int
    latent: int
    hidden_sizes: tuple[int, ...]
    values: int
    rewards: int
    activation: Activation
    layer_norm: bool

    @property
    def parts(self) -> dict[str, MlpShape]:
        """The networks by name, in the order in which their parameters lie."""
        sizes = {
            "representation": (self.inputs, self.latent),
            "dynamics": (self.latent + self.choices, self.latent + self.rewards),
            "prediction": (self.latent, self.choices + self.values),
        }
        return {
            name: MlpShape(a, self.hidden_sizes, b, self.activation, layer_norm=self.layer_norm)
            for name, (a, b) in sizes.items()
        }

    def add_to(self, layout: Layout) -> None:
        """Append the networks; those that say what a later observation is worth have targets."""
        for name, part in self.parts.items():
            layout.add_network(name, part, target=name != "dynamics")


class Root(NamedTuple):
    """What a search begins with.

    Attributes:
        logits: ``[B, A]``, of the prior.
        value: ``[B]``.
        latent: ``[B, D]``.
    """

    logits: F32
    value: F32
    latent: F32


class Step(NamedTuple):
    """Where actions lead.

    Attributes:
        latent: ``[B, D]``.
        reward: ``[B]``.
        value: ``[B]``.
        logits: ``[B, A]``.
    """

    latent: F32
    reward: F32
    value: F32
    logits: F32


class Model(Protocol):
    """The three networks as policies need them.

    Attributes:
        encoder: Takes observations apart.
    """

    encoder: ObservationEncoder

    def load(self, parameters: Sequence[Array]) -> None:
        """Use these parameters from now on, as `Layout` has them; they are copied."""
        ...

    def root(self, obs: Array) -> Root:
        """What observations ``[B, ...]`` are."""
        ...

    def step(self, latent: F32, action: I64) -> Step:
        """Where actions ``[B]`` lead from latent states ``[B, D]``."""
        ...


class NumpyModel(PolicyInputs):
    """Implements `Model`, on the CPU and without convolutions.

    Args:
        shape: Of the networks.
        environment: What is observed.
        how: How observations are normalised; None where they are not.
    """

    def __init__(
        self, shape: ModelShape, environment: EnvironmentSpec, how: Normalization | None
    ) -> None:
        super().__init__(environment, (), how)
        self._shape, layout = shape, Layout()
        shape.add_to(layout)
        flat: F32 = np.zeros(layout.size, np.float32)
        self._views = [p.view(flat) for p in layout.parameters]
        self._representation, self._dynamics, self._prediction = (
            NumpyMlp(part, layout.groups[name].parameters, flat)
            for name, part in shape.parts.items()
        )
        self._value, self._reward = Support(shape.values // 2), Support(shape.rewards // 2)
        self._entering: F32 = np.empty((0, 0), np.float32)
        self._columns = np.arange(0)

    def load(self, parameters: Sequence[Array]) -> None:
        """See `Model`."""
        for view, source in zip(self._views, self.take(parameters), strict=True):
            view[...] = source

    def root(self, obs: Array) -> Root:
        """See `Model`."""
        latent = self._representation.forward(self.numbers(obs).T)[0]
        centre(latent)
        return Root(*self._judge(latent), latent.T)

    def step(self, latent: F32, action: I64) -> Step:
        """See `Model`."""
        rows, width = len(latent), self._shape.latent
        if self._entering.shape[1] != rows:
            self._entering = np.empty((width + self._shape.choices, rows), np.float32)
            self._columns = np.arange(rows)
        entering, taken = self._entering, self._entering[width:]
        entering[:width] = latent.T
        taken.fill(0)
        taken[action, self._columns] = 1
        said = self._dynamics.forward(entering)[0]
        later = said[:width]
        centre(later, entering[:width])
        logits, value = self._judge(later)
        return Step(later.T, self._reward.decode(said[width:]), value, logits)

    def _judge(self, latent: F32) -> tuple[F32, F32]:
        """Logits ``[B, A]`` and values ``[B]`` of latent states ``[D, B]``."""
        said, choices = self._prediction.forward(latent)[0], self._shape.choices
        return said[:choices].T.copy(), self._value.decode(said[choices:])


def centre(latent: F32, before: F32 | None = None) -> None:
    """Bring each state of ``[D, B]`` to mean 0 and deviation 1, in place.

    The paper brings them to the range from 0 to 1. With this CartPole-v1 was learned in fewer
    environment steps.

    Args:
        latent: The states, or what has changed in them.
        before: What they were.
    """
    features, rows = latent.shape
    _native.centre(latent, before, features, rows, EPSILON)
