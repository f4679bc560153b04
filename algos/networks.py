"""Shapes, flat layout and initial values of actor-critic MLPs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
Activation = Literal["tanh", "relu"]


@dataclass(frozen=True)
class NetworkShape:
    """An actor-critic network.

    Attributes:
        inputs: Size of an encoded observation.
        hidden_sizes: Width of each hidden layer of a torso, at least one.
        activation: What follows each hidden layer.
        shared_torso: One torso under both heads, or one for each.
        outputs: Size of the policy head: logits of a discrete action, or means.
        gaussian: Whether the policy has a state-independent ``log_std`` per output.
    """

    inputs: int
    hidden_sizes: tuple[int, ...]
    activation: Activation
    shared_torso: bool
    outputs: int
    gaussian: bool

    @property
    def torsos(self) -> tuple[str, ...]:
        """Names of the torsos; the policy reads the first, the value the last."""
        return ("torso",) if self.shared_torso else ("policy", "value")


@dataclass(frozen=True)
class Parameter:
    """One named array of the flat parameter vector."""

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def end(self) -> int:
        """Offset of what follows."""
        return self.offset + math.prod(self.shape)

    @property
    def belongs_to_policy(self) -> bool:
        """Whether acting needs it."""
        return not self.name.startswith("value.")

    def view(self, flat: F32) -> F32:
        """Return this parameter's place in a flat vector; shares its memory."""
        return flat[self.offset : self.end].reshape(self.shape)


def parameter_layout(shape: NetworkShape) -> tuple[Parameter, ...]:
    """Lay all parameters out in one vector.

    The same layer of all torsos lies together, weights first, so that one array
    ``[torsos, outputs, inputs]`` views them and one call computes them.
    """
    layout: list[Parameter] = []

    def add(name: str, *dimensions: int) -> None:
        layout.append(Parameter(name, dimensions, layout[-1].end if layout else 0))

    width = shape.inputs
    for index, size in enumerate(shape.hidden_sizes):
        for torso in shape.torsos:
            add(f"{torso}.{index}.weight", size, width)
        for torso in shape.torsos:
            add(f"{torso}.{index}.bias", size)
        width = size
    add("policy.head.weight", shape.outputs, width)
    add("policy.head.bias", shape.outputs)
    if shape.gaussian:
        add("policy.log_std", shape.outputs)
    add("value.head.weight", 1, width)
    add("value.head.bias", 1)
    return tuple(layout)


def initial_parameters(
    layout: tuple[Parameter, ...], rng: np.random.Generator, *, initial_log_std: float
) -> F32:
    """Return a flat vector of orthogonal weights and zero biases.

    Gains: sqrt(2) for hidden layers, 0.01 for the policy head (the first policy is close to
    uniform), 1 for the value head.
    """
    flat = np.zeros(layout[-1].end, np.float32)
    for parameter in layout:
        if parameter.name == "policy.log_std":
            parameter.view(flat)[:] = initial_log_std
        elif parameter.name.endswith(".weight"):
            parameter.view(flat)[:] = orthogonal(rng, parameter.shape, _gain(parameter.name))
    return flat


def _gain(name: str) -> float:
    return {"policy.head.weight": 0.01, "value.head.weight": 1.0}.get(name, math.sqrt(2.0))


def orthogonal(
    rng: np.random.Generator, shape: tuple[int, ...], gain: float
) -> NDArray[np.float64]:
    """Draw a matrix with orthogonal rows or columns, whichever are fewer, times ``gain``.

    Source: Saxe et al. 2013, arXiv:1312.6120. The signs of R make the draw uniform.
    """
    rows, columns = shape
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diagonal(r))
    matrix: NDArray[np.float64] = gain * (q if rows >= columns else q.T)
    return matrix
