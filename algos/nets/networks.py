"""Shapes, flat layout and initial values of actor-critic networks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fast_core.algos.nets.activations import Activation
from fast_core.algos.nets.images import Cnn, ImageShape, cnn_features, cnn_layers
from fast_core.algos.nets.own_shape import OwnShape
from fast_core.algos.nets.recurrent_shape import MemoryShape

F32 = NDArray[np.float32]
OWN = ".own."
LARGE = 1 << 23  # numbers of a matrix; networks of 84x84 images have a fifth of it


@dataclass(frozen=True)
class NetworkShape:
    """An actor-critic network.

    A torso is a convolutional network for each image, if there are any, whose features and the
    numbers of the observation go through the hidden layers together.

    Attributes:
        inputs: Size of an encoded observation, without its images.
        hidden_sizes: Width of each hidden layer of a torso; at least one without images.
        activation: What follows each hidden layer, and its normalisation.
        shared_torso: One torso under both heads, or one for each.
        outputs: Size of the policy head: logits of a discrete action, or means.
        gaussian: Whether the policy has a state-independent ``log_std`` per output.
        centred: Whether policies are told where numbers of observations are counted from.
        stretched: Whether means and deviations of a box's actions are those within [-1, 1],
            which is stretched over it.
        value_sizes: Width of each hidden layer of the value's torso, where they are others.
        layer_norm: Whether what each hidden layer puts out is normalised over its features.
        choices: Choices of each dimension of a multi-discrete action; empty for others.
        images: The images of an observation.
        cnn: The convolutional network for each of them.
        memory: A recurrent layer between the torso, which is shared then, and both heads.
        own: A user's module that a torso begins with, in place of convolutions and numbers.
    """

    inputs: int
    hidden_sizes: tuple[int, ...]
    activation: Activation
    shared_torso: bool
    outputs: int
    gaussian: bool
    choices: tuple[int, ...] = ()
    images: tuple[ImageShape, ...] = ()
    cnn: Cnn = "nature_cnn"
    memory: MemoryShape | None = None
    stretched: bool = False
    centred: bool = False
    own: OwnShape | None = None
    value_sizes: tuple[int, ...] | None = None
    layer_norm: bool = False

    @property
    def joined(self) -> int:
        """Numbers that enter the first hidden layer."""
        if self.own is not None:
            return self.own.known.outputs
        return self.inputs + len(self.images) * cnn_features(self.cnn)

    def sizes(self, torso: str) -> tuple[int, ...]:
        """Width of each hidden layer of one torso."""
        own = self.value_sizes if torso == "value" else None
        return self.hidden_sizes if own is None else own

    @property
    def features(self) -> int:
        """Numbers that leave the policy's torso."""
        return self._leaving(self.torsos[0])

    def head_inputs(self, head: int) -> int:
        """Numbers that enter the policy's head, 0, or the value's, -1."""
        return self._leaving(self.torsos[head]) if self.memory is None else self.memory.size

    def _leaving(self, torso: str) -> int:
        return (self.joined, *self.sizes(torso))[-1] - self.scores

    @property
    def scores(self) -> int:
        """The policy's scores that a user's module gives before its features; 0: a head does."""
        return 0 if self.own is None else self.own.known.scores

    @property
    def products(self) -> int:
        """Multiplications of one row's forward pass through everything."""
        if self.own is not None:
            convolutions = self.own.known.products
        else:
            convolutions = sum(
                layer.products for image in self.images for layer in cnn_layers(self.cnn, image)
            )
        dense = sum(
            a * b for torso in self.torsos for a, b in pairwise((self.joined, *self.sizes(torso)))
        )
        memory = 0 if self.memory is None else self.memory.products
        policy = 0 if self.scores else self.head_inputs(0) * self.outputs
        heads = policy + self.head_inputs(-1)
        return len(self.torsos) * convolutions + dense + memory + heads

    @property
    def torsos(self) -> tuple[str, ...]:
        """Names of the torsos; the policy reads the first, the value the last."""
        return ("torso",) if self.shared_torso else ("policy", "value")

    @property
    def ensembles(self) -> tuple[tuple[str, ...], ...]:
        """The torsos, those of equal layers together."""
        alike = len({self.sizes(torso) for torso in self.torsos}) == 1
        return (self.torsos,) if alike else tuple((torso,) for torso in self.torsos)


@dataclass(frozen=True)
class Parameter:
    """One named array of the flat parameter vector.

    Convolutions ``[out, in, kernel, kernel]`` lie there as ``[out, kernel, kernel, in]``, the
    memory format in which they are computed: converting them takes longer than an update.

    Attributes:
        name: Of the parameter.
        shape: Its dimensions.
        offset: Where it begins.
        plain: Whether its numbers lie in the order of its dimensions, whatever it is: in a user's
            module, which may look at them as it likes (`Tensor.view`).
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    plain: bool = False

    @property
    def end(self) -> int:
        """Offset of what follows."""
        return self.offset + math.prod(self.shape)

    @property
    def channels_last(self) -> bool:
        """Whether its numbers lie in another order than that of its dimensions."""
        return len(self.shape) == 4 and not self.plain

    @property
    def belongs_to_policy(self) -> bool:
        """Whether acting needs it."""
        return not self.name.startswith("value.")

    def view(self, flat: F32) -> F32:
        """Return this parameter's place in a flat vector; shares its memory."""
        place = flat[self.offset : self.end]
        if self.channels_last:
            out, inputs, height, width = self.shape
            return place.reshape(out, height, width, inputs).transpose(0, 3, 1, 2)
        return place.reshape(self.shape)


def layer_kinds(*, layer_norm: bool) -> tuple[str, ...]:
    """What the parameters of a hidden layer are called, in their order."""
    return ("weight", "bias", "scale", "shift") if layer_norm else ("weight", "bias")


def normalises(parameter: str) -> bool:
    """Whether it scales or shifts what is normalised."""
    return parameter.endswith((".scale", ".shift"))


@lru_cache(maxsize=8)  # a policy asks several times for the same
def parameter_layout(shape: NetworkShape) -> tuple[Parameter, ...]:
    """Lay all parameters out in one vector.

    The same layer of all torsos of an ensemble lies together, weights first, so that one array
    ``[torsos, outputs, inputs]`` views them and one call computes them.
    """
    layout: list[Parameter] = []

    def add(name: str, *dimensions: int, plain: bool = False) -> None:
        layout.append(Parameter(name, dimensions, layout[-1].end if layout else 0, plain))

    for torso in shape.torsos:
        if shape.own is not None:
            for field in shape.own.known.fields:
                add(own_prefix(torso) + field.name, *field.shape, plain=True)
            continue
        for index, image in enumerate(shape.images):
            for layer in cnn_layers(shape.cnn, image):
                add(f"{torso}.image{index}.{layer.name}.weight", *layer.shape)
                add(f"{torso}.image{index}.{layer.name}.bias", layer.shape[0])
    for torsos in shape.ensembles:
        width = shape.joined
        for index, size in enumerate(shape.sizes(torsos[0])):
            for kind in layer_kinds(layer_norm=shape.layer_norm):
                for torso in torsos:
                    add(f"{torso}.{index}.{kind}", size, *((width,) if kind == "weight" else ()))
            width = size
    if shape.memory is not None:
        for name, dimensions in shape.memory.parameters:
            add(name, *dimensions)
    if not shape.scores:
        add("policy.head.weight", shape.outputs, shape.head_inputs(0))
        add("policy.head.bias", shape.outputs)
    if shape.gaussian:
        add("policy.log_std", shape.outputs)
    add("value.head.weight", 1, shape.head_inputs(-1))
    add("value.head.bias", 1)
    return tuple(layout)


def own_prefix(torso: str) -> str:
    """What the names of a user's module's parameters begin with, in one torso."""
    return f"{torso}{OWN}"


def initial_parameters(
    layout: tuple[Parameter, ...], rng: np.random.Generator, *, initial_log_std: float
) -> F32:
    """Return a flat vector of orthogonal weights, zero biases, and normalisations that scale by 1.

    Gains: sqrt(2) for hidden layers and convolutions, 0.1 for the last convolution of a residual
    block (features would grow with each block), 0.01 for the policy head (the first policy is
    close to uniform), 1 for the value head.
    """
    flat = np.zeros(layout[-1].end, np.float32)
    for parameter in layout:
        if parameter.name == "policy.log_std":
            parameter.view(flat)[:] = initial_log_std
        elif OWN in parameter.name:
            continue  # the user's module draws them
        elif parameter.name.endswith(".scale"):
            parameter.view(flat)[:] = 1.0
        elif parameter.name.endswith(".weight"):
            draw_weight(parameter, flat, rng)
    return flat


def draw_weight(parameter: Parameter, flat: F32, rng: np.random.Generator) -> None:
    """Draw an orthogonal weight, a convolution's as the matrix of its outputs' rows."""
    rows = parameter.shape[0], math.prod(parameter.shape[1:])
    matrix = orthogonal(rng, rows, first_gain(parameter.name))
    parameter.view(flat)[:] = matrix.reshape(parameter.shape)


def first_gain(name: str) -> float:
    """What an orthogonal weight of this name is multiplied with."""
    if ".block" in name and name.endswith(".conv1.weight"):
        return 0.1
    return {"policy.head.weight": 0.01, "value.head.weight": 1.0}.get(name, math.sqrt(2.0))


def orthogonal(
    rng: np.random.Generator, shape: tuple[int, ...], gain: float
) -> NDArray[np.float64] | F32:
    """Draw a matrix with orthogonal rows or columns, whichever are fewer, times ``gain``.

    Source: Saxe et al. 2013, arXiv:1312.6120. The signs of R make the draw uniform.
    """
    rows, columns = shape
    sizes = max(rows, columns), min(rows, columns)
    q: NDArray[np.float64] | F32
    if sizes[0] * sizes[1] > LARGE and sizes[0] > 8 * sizes[1]:
        # That well conditioned, Q is X R^-1 with the Cholesky factor R of X'X: 13 times faster.
        x = rng.standard_normal(sizes, np.float32)
        r = np.linalg.cholesky((x.T @ x).astype(np.float64)).T
        q = x @ np.linalg.inv(r).astype(np.float32)
    else:
        q, r = np.linalg.qr(rng.standard_normal(sizes))
        q = q * np.sign(np.diagonal(r))
    matrix = gain * (q if rows >= columns else q.T)
    return matrix
