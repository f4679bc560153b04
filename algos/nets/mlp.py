"""Ensembles of MLPs over a flat vector: shape, first values, and NumPy's passes.

Everything is feature-first: inputs ``[in, B]``, outputs ``[M, out, B]`` for the ``M`` members.
So one call serves all members, bias gradients are row sums, and the log-probabilities of one
action are contiguous. For networks of this size a call costs more than its arithmetic, and
NumPy's calls are the cheapest (its tanh is also several times faster than torch's on CPUs without
Intel's vector library).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fast_core.algos.nets.activations import NONLINEARITIES, Activation
from fast_core.algos.nets.layer_norm import LayerNorm
from fast_core.algos.nets.networks import (
    F32,
    NetworkShape,
    Parameter,
    layer_kinds,
    normalises,
    parameter_layout,
)
from fast_core.algos.nets.observations import Bool

KEPT_SIZES = 4  # numbers of rows whose buffers are kept


@dataclass(frozen=True)
class MlpShape:
    """``M`` networks of one shape on the same inputs.

    Attributes:
        inputs: Numbers that enter.
        hidden_sizes: Width of each hidden layer.
        outputs: Numbers that leave each member, linear.
        activation: What follows each hidden layer, and its normalisation.
        members: ``M``.
        layer_norm: Whether what each hidden layer puts out is normalised over its features.
    """

    inputs: int
    hidden_sizes: tuple[int, ...]
    outputs: int
    activation: Activation = "relu"
    members: int = 1
    layer_norm: bool = False

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of each layer."""
        widths = (self.inputs, *self.hidden_sizes, self.outputs)
        return tuple(pairwise(widths))

    @property
    def products(self) -> int:
        """Multiplications of one row's forward pass through all members."""
        return self.members * sum(a * b for a, b in self.layers)

    def parameters(self, name: str, offset: int) -> tuple[Parameter, ...]:
        """Weights ``[M, out, in]`` and biases ``[M, out]``, layer by layer, from ``offset`` on.

        Normalised layers have a scale and a shift ``[M, out]`` behind them.
        """
        found: list[Parameter] = []
        for index, (inputs, outputs) in enumerate(self.layers):
            normalised = self.layer_norm and index < len(self.hidden_sizes)
            for kind in layer_kinds(layer_norm=normalised):
                sizes = (outputs, inputs) if kind == "weight" else (outputs,)
                parameter = Parameter(f"{name}.{index}.{kind}", (self.members, *sizes), offset)
                found.append(parameter)
                offset = parameter.end
        return tuple(found)


def of_kind(parameters: Sequence[Parameter], kind: str) -> list[Parameter]:
    """Those of a network's parameters that are weights, biases, scales or shifts, by layer."""
    return [p for p in parameters if p.name.endswith(f".{kind}")]


def draw_first_values(
    parameters: tuple[Parameter, ...], flat: F32, rng: np.random.Generator
) -> None:
    """Draw weights and biases of an MLP uniformly within ``1 / sqrt(inputs)`` of zero.

    Normalisations scale by 1 and shift by 0.

    Source: LeCun et al. 1998, efficient backprop; what torch does with linear layers.
    """
    limit = 0.0
    for parameter in parameters:
        if normalises(parameter.name):
            parameter.view(flat)[...] = float(parameter.name.endswith(".scale"))
            continue
        if parameter.name.endswith(".weight"):
            limit = 1.0 / math.sqrt(parameter.shape[-1])
        parameter.view(flat)[...] = rng.uniform(-limit, limit, parameter.shape)


class NumpyMlp:
    """The passes of an ensemble in NumPy; an object serves one caller at a time.

    Args:
        shape: What it is.
        parameters: Its layout.
        flat: The vector with its parameters, read whenever it is used.
        gradient: The vector that takes their gradients; None for networks that only act.
        activated: Whether the activation follows the last layer too.
    """

    def __init__(
        self,
        shape: MlpShape,
        parameters: tuple[Parameter, ...],
        flat: F32,
        gradient: F32 | None = None,
        *,
        activated: bool = False,
    ) -> None:
        self._shape = shape
        self._linear = -1 if activated else len(shape.layers) - 1  # the layer that is
        self._activation = NONLINEARITIES[shape.activation]
        self._weights = [p.view(flat) for p in of_kind(parameters, "weight")]
        self._biases = [p.view(flat)[:, :, None] for p in of_kind(parameters, "bias")]
        self._weight_gradients: list[F32] = []
        self._bias_gradients: list[F32] = []
        if gradient is not None:
            self._weight_gradients = [p.view(gradient) for p in of_kind(parameters, "weight")]
            self._bias_gradients = [p.view(gradient) for p in of_kind(parameters, "bias")]
        scales, shifts = of_kind(parameters, "scale"), of_kind(parameters, "shift")
        self._norms = [
            LayerNorm(scale, shift, flat, gradient)
            for scale, shift in zip(scales, shifts, strict=True)
        ]
        self._dtype = flat.dtype
        self._buffers: dict[int, Buffers] = {}
        self._deltas: dict[int, tuple[list[F32], list[Bool]]] = {}
        self._ones: dict[int, F32] = {}
        self._x: F32 = np.empty((0, 0), self._dtype)
        self._delta = self._x

    def forward(self, x: F32) -> F32:
        """Map ``x [in, B]`` to ``[M, out, B]``.

        ``x`` has to stay as it is until `backward`; the result is overwritten by the next call
        with as many rows.
        """
        rows = x.shape[1]
        buffers = self._buffers.get(rows) or self._allocate(rows)
        self._x = inputs = x
        for index, output in enumerate(buffers.outputs):
            product = buffers.products[index]
            np.matmul(self._weights[index], inputs, out=product)
            np.add(product, self._biases[index], out=product)
            if index == self._linear:
                break
            entering = buffers.entering[index]
            if self._norms:
                self._norms[index].forward(product, entering)
            self._activation.forward(entering, output)
            inputs = output
        return output

    def backward(self, delta: F32, *, rows: int, inputs: slice | None = None) -> F32 | None:
        """Go back through the last `forward`, whose activations are destroyed.

        Args:
            delta: ``[M, out, B]``, gradient of the loss with respect to the outputs; changed
                where an activation follows the last layer.
            rows: Parameter gradients are those of the first ``rows`` columns; 0 leaves them.
            inputs: Which inputs' gradients are wanted, None for none.

        Returns:
            Gradient with respect to ``x[inputs, rows:]``, summed over the members.
        """
        columns = self._x.shape[1]
        outputs = self._buffers[columns].outputs
        deltas = self._deltas_for(columns)[0]
        if self._linear < 0:
            self._through_activation(len(outputs) - 1, delta, rows)
        for index in reversed(range(len(outputs))):
            below = outputs[index - 1] if index else self._x
            if rows:
                self._write_gradients(index, delta[:, :, :rows], below[..., :rows])
            if index == 0:
                break
            delta = _down(self._weights[index], delta, deltas[index - 1])
            self._through_activation(index - 1, delta, rows)
        self._delta = delta.reshape(-1, columns)
        return None if inputs is None else self._down_to_inputs(inputs, slice(rows, None))

    def _through_activation(self, index: int, delta: F32, rows: int) -> None:
        """Go back through what follows the products of a hidden layer."""
        columns = self._x.shape[1]
        buffers, mask = self._buffers[columns], self._deltas[columns][1][index]
        entering, output = buffers.entering[index], buffers.outputs[index]
        self._activation.backward(delta, entering, output, mask)
        if self._norms:
            self._norms[index].backward(delta, buffers.products[index], rows)

    def _down_to_inputs(self, inputs: slice, columns: slice) -> F32:
        # All members' first layers as one: the sum over members is part of the product.
        weight = self._weights[0].reshape(-1, self._shape.inputs)[:, inputs]
        product: F32 = np.matmul(weight.T, self._delta[:, columns])
        return product

    def _write_gradients(self, index: int, delta: F32, below: F32) -> None:
        np.matmul(delta, below.swapaxes(-1, -2), out=self._weight_gradients[index])
        rows = delta.shape[2]
        ones = self._ones.get(rows)
        if ones is None:
            ones = self._ones[rows] = np.ones(rows, self._dtype)
        np.matmul(delta, ones, out=self._bias_gradients[index])

    def _deltas_for(self, rows: int) -> tuple[list[F32], list[Bool]]:
        """Buffers of the backward pass, which networks that only act never need."""
        found = self._deltas.get(rows)
        if found is None:
            outputs = self._buffers[rows].outputs
            found = self._deltas[rows] = (
                [np.empty_like(output) for output in outputs[:-1]],
                [np.empty(output.shape, np.bool_) for output in outputs],
            )
        return found

    def _allocate(self, rows: int) -> Buffers:
        if len(self._buffers) >= KEPT_SIZES:
            self._buffers.clear()
            self._deltas.clear()
            self._ones.clear()
        sizes = [(self._shape.members, outputs, rows) for _, outputs in self._shape.layers]
        outputs = [np.empty(size, self._dtype) for size in sizes]
        hidden = outputs if self._linear < 0 else outputs[:-1]
        # One array serves as long as nothing that is overwritten is needed on the way back.
        entering = hidden if self._activation.in_place else [np.empty_like(h) for h in hidden]
        products = [np.empty_like(h) for h in hidden] if self._norms else entering
        products = [*products, *outputs[len(hidden) :]]
        buffers = self._buffers[rows] = Buffers(products, entering, outputs)
        return buffers


class Buffers(NamedTuple):
    """What a pass over ``B`` rows writes, ``[M, out, B]`` of each layer.

    Attributes:
        products: What the linear part puts out; normalised ones keep what is centred and scaled.
        entering: What the activations of hidden layers take.
        outputs: What leaves each layer.
    """

    products: list[F32]
    entering: list[F32]
    outputs: list[F32]


def _down(weight: F32, delta: F32, out: F32) -> F32:
    """Write the gradient with respect to a layer's inputs, ``[M, in, B]``, and return it."""
    weight = weight.transpose(0, 2, 1)
    if weight.shape[2] == 1:  # four times faster than a product with one column
        return np.multiply(weight, delta, out=out)
    return np.matmul(weight, delta, out=out)


class Head:
    """The linear layer ``name.head`` from features ``[in, B]`` to outputs ``[A, B]``.

    Args:
        name: Whose it is, ``policy`` or ``value``.
        views: Parameters by name, read whenever it is used.
        gradients: Where their gradients are written; None for acting.
    """

    def __init__(
        self, name: str, views: Mapping[str, F32], gradients: Mapping[str, F32] | None = None
    ) -> None:
        names = f"{name}.head.weight", f"{name}.head.bias"
        self._weight, self._bias = views[names[0]], views[names[1]][:, None]
        self._gradients = [] if gradients is None else [gradients[each] for each in names]

    def forward(self, features: F32) -> F32:
        """Return outputs in a fresh array."""
        output: F32 = np.matmul(self._weight, features)
        np.add(output, self._bias, out=output)
        return output

    def backward(self, features: F32, gradient: F32, delta: F32, *, add: bool) -> None:
        """Write parameter gradients, and write or add the gradient of the features."""
        weight_gradient, bias_gradient = self._gradients
        np.matmul(gradient, features.T, out=weight_gradient)
        np.add.reduce(gradient, axis=1, out=bias_gradient)
        if add:
            delta += np.matmul(self._weight.T, gradient)
        elif len(gradient) == 1:  # NumPy's matmul has no fast path for an outer product
            np.multiply(self._weight.T, gradient, out=delta)
        else:
            np.matmul(self._weight.T, gradient, out=delta)


def make_torso(shape: NetworkShape, flat: F32, torso: int) -> NumpyMlp:
    """The hidden layers under one head of an actor-critic without images, for acting.

    One form serves both kinds of network: against layers written for torsos alone the bits were
    the same, and the processor time of whole steps 0.98 to 1.05 of theirs, 1.01 in the middle (64
    and 256 wide, 64 and 256 rows).

    Args:
        shape: The actor-critic.
        flat: The vector with its parameters.
        torso: 0 the policy's, -1 the value's.
    """
    return _make_ensemble(shape, (shape.torsos[torso],), flat, None)


def make_torsos(shape: NetworkShape, flat: F32, gradient: F32) -> list[NumpyMlp]:
    """All of them, in as few ensembles as there are: torsos of different layers are two.

    ``gradient`` is the vector that takes the gradients of their parameters.
    """
    return [_make_ensemble(shape, names, flat, gradient) for names in shape.ensembles]


def _make_ensemble(
    shape: NetworkShape, torsos: tuple[str, ...], flat: F32, gradient: F32 | None
) -> NumpyMlp:
    """Torsos of equal layers as one network."""
    layout, members = {p.name: p for p in parameter_layout(shape)}, len(torsos)
    sizes = shape.sizes(torsos[0])
    parameters = []
    for index in range(len(sizes)):
        for kind in layer_kinds(layer_norm=shape.layer_norm):
            # Of one layer, weights of all torsos lie together, and biases.
            first = layout[f"{torsos[0]}.{index}.{kind}"]
            parameters.append(Parameter(first.name, (members, *first.shape), first.offset))
    *hidden, last = sizes
    ensemble = MlpShape(
        shape.inputs, tuple(hidden), last, shape.activation, members, shape.layer_norm
    )
    return NumpyMlp(ensemble, tuple(parameters), flat, gradient, activated=True)
