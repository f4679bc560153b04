"""What follows a hidden layer, in NumPy: as torch's functions of the same names, with gradients.

`nets_torch.activations` has them in torch. There is no identity: linear layers on one another are
one linear layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Activation = Literal[
    "relu",
    "tanh",
    "elu",
    "gelu",
    "gelu_tanh",
    "leaky_relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
]
Floats = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]

ONE = np.float32(1)
ZERO, INFINITY = np.float32(0), np.float32(np.inf)
LEAK = 0.01
# Klambauer et al. 2017, arXiv:1706.02515, equation 14.
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805
GELU_ROOT, GELU_CUBIC = math.sqrt(2.0 / math.pi), 0.044715  # of the tanh form, arXiv:1606.08415


@dataclass(frozen=True)
class Nonlinearity:
    """An activation ``y = f(x)``, element by element.

    Attributes:
        forward: Write ``f(x)`` into ``y``: ``forward(x, y)``.
        backward: Multiply ``delta`` by the slope: ``backward(delta, x, y, mask)``; what the others
            hold is lost, and ``mask`` is only room.
        in_place: Whether ``x`` and ``y`` may be one array: the slope follows from ``y`` alone.
    """

    forward: Callable[[Floats, Floats], object]
    backward: Callable[[Floats, Floats, Floats, Bool], object]
    in_place: bool = True


def _relu(x: Floats, y: Floats) -> None:
    x.clip(ZERO, INFINITY, out=y)  # faster than a maximum, and than `np.clip` by a microsecond


def _relu_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.multiply(delta, np.greater(y, ZERO, out=mask), out=delta)


def _tanh(x: Floats, y: Floats) -> None:
    np.tanh(x, out=y)


def _tanh_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.square(y, out=y)
    np.subtract(ONE, y, out=y)
    np.multiply(delta, y, out=delta)


def _elu(x: Floats, y: Floats, *, alpha: float = 1.0, scale: float = 1.0) -> None:
    below = np.expm1(np.minimum(x, ZERO))
    below *= alpha
    np.maximum(x, ZERO, out=y)
    y += below
    if scale != 1.0:
        y *= scale


def _selu(x: Floats, y: Floats) -> None:
    _elu(x, y, alpha=SELU_ALPHA, scale=SELU_SCALE)


def _elu_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.minimum(y, ZERO, out=y)
    y += ONE
    delta *= y


def _selu_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.greater(y, ZERO, out=mask)
    y += SELU_ALPHA * SELU_SCALE
    np.copyto(y, SELU_SCALE, where=mask)
    delta *= y


def _leaky_relu(x: Floats, y: Floats) -> None:
    np.maximum(x, x * LEAK, out=y)


def _leaky_relu_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.multiply(delta, LEAK, out=delta, where=np.less_equal(y, ZERO, out=mask))


def _logistic(x: Floats) -> Floats:
    """``1 / (1 + e^-x)`` in fresh memory; a tanh never overflows."""
    s: Floats = x * 0.5
    np.tanh(s, out=s)
    s *= 0.5
    s += 0.5
    return s


def _sigmoid(x: Floats, y: Floats) -> None:
    y[...] = _logistic(x)


def _sigmoid_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    delta *= y
    np.subtract(ONE, y, out=y)
    delta *= y


def _silu(x: Floats, y: Floats) -> None:
    np.multiply(x, _logistic(x), out=y)


def _share(x: Floats, y: Floats, mask: Bool) -> Floats:
    """``y / x`` in fresh memory: the share that a gate let through, a half where ``x`` is 0."""
    with np.errstate(invalid="ignore"):
        share: Floats = np.divide(y, x)
    np.copyto(share, 0.5, where=np.equal(x, ZERO, out=mask))
    return share


def _silu_slope(delta: Floats, x: Floats, y: Floats, mask: Bool) -> None:
    share = _share(x, y, mask)
    np.subtract(ONE, share, out=x)
    y *= x
    y += share
    delta *= y


def _softplus(x: Floats, y: Floats) -> None:
    below = np.log1p(np.exp(-np.abs(x)))
    np.maximum(x, ZERO, out=y)
    y += below


def _softplus_slope(delta: Floats, _: Floats, y: Floats, mask: Bool) -> None:
    np.negative(y, out=y)
    np.expm1(y, out=y)
    np.negative(y, out=y)
    delta *= y


def _gelu_tanh(x: Floats, y: Floats) -> None:
    inner = np.square(x)
    inner *= GELU_CUBIC
    inner += ONE
    inner *= x
    inner *= GELU_ROOT
    np.tanh(inner, out=inner)
    inner += ONE
    inner *= 0.5
    np.multiply(x, inner, out=y)


def _gelu_tanh_slope(delta: Floats, x: Floats, y: Floats, mask: Bool) -> None:
    share = _share(x, y, mask)
    inner = np.square(x, out=x)
    inner *= 6.0 * GELU_CUBIC * GELU_ROOT
    inner += 2.0 * GELU_ROOT  # twice the slope of what the tanh is of
    inner *= y
    y[...] = share
    np.subtract(ONE, share, out=share)
    inner *= share
    y += inner
    delta *= y


def _gelu(x: Floats, y: Floats) -> None:
    """``x`` times the normal distribution function, which is good to 1.5e-7.

    Source: Abramowitz and Stegun 1964, 7.1.26.
    """
    size = np.abs(x)
    t = size * (0.3275911 / math.sqrt(2.0))
    t += ONE
    np.divide(ONE, t, out=t)
    beyond = t * (0.5 * 1.061405429)  # the share beyond |x|
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        beyond += 0.5 * coefficient
        beyond *= t
    beyond *= _bell(x, t)
    beyond *= size
    np.maximum(x, ZERO, out=y)
    y -= beyond


def _gelu_slope(delta: Floats, x: Floats, y: Floats, mask: Bool) -> None:
    share, bell = _share(x, y, mask), _bell(x, y)
    bell *= x
    bell *= 1.0 / math.sqrt(2.0 * math.pi)
    share += bell
    delta *= share


def _bell(x: Floats, out: Floats) -> Floats:
    """``exp(-x^2 / 2)``."""
    np.square(x, out=out)
    out *= -0.5
    return np.exp(out, out=out)


NONLINEARITIES: dict[Activation, Nonlinearity] = {
    "relu": Nonlinearity(_relu, _relu_slope),
    "tanh": Nonlinearity(_tanh, _tanh_slope),
    "elu": Nonlinearity(_elu, _elu_slope),
    "gelu": Nonlinearity(_gelu, _gelu_slope, in_place=False),
    "gelu_tanh": Nonlinearity(_gelu_tanh, _gelu_tanh_slope, in_place=False),
    "leaky_relu": Nonlinearity(_leaky_relu, _leaky_relu_slope),
    "selu": Nonlinearity(_selu, _selu_slope),
    "sigmoid": Nonlinearity(_sigmoid, _sigmoid_slope),
    "silu": Nonlinearity(_silu, _silu_slope, in_place=False),
    "softplus": Nonlinearity(_softplus, _softplus_slope),
}
