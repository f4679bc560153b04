"""What follows a hidden layer, in torch; `nets.activations` says which there are.

`FUNCTIONS` are for autograd and for acting. `forward` and `backward` are torch's own kernels of
both ways, for passes that are written by hand and own their memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.nets.activations import LEAK, SELU_ALPHA, SELU_SCALE, Activation

aten = torch.ops.aten

FUNCTIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": functional.elu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "leaky_relu": partial(functional.leaky_relu, negative_slope=LEAK),
    "selu": functional.selu,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "softplus": functional.softplus,
}
IN_PLACE = ("relu", "tanh", "sigmoid")  # their slope follows from what they put out


def forward(name: Activation, x: Tensor, y: Tensor) -> None:
    """Write the activation of ``x`` into ``y``; they may be one tensor for those `IN_PLACE`."""
    match name:
        case "relu":
            torch.clamp_min(x, 0, out=y)  # relu itself has no form that writes where it is told
        case "tanh":
            torch.tanh(x, out=y)
        case "sigmoid":
            torch.sigmoid(x, out=y)
        case "elu":
            aten.elu.out(x, out=y)
        case "selu":
            aten.elu.out(x, SELU_ALPHA, SELU_SCALE, out=y)
        case "gelu" | "gelu_tanh":
            aten.gelu.out(x, approximate="none" if name == "gelu" else "tanh", out=y)
        case "leaky_relu":
            aten.leaky_relu.out(x, LEAK, out=y)
        case "silu":
            aten.silu.out(x, out=y)
        case "softplus":
            aten.softplus.out(x, out=y)


def backward(name: Activation, delta: Tensor, x: Tensor, y: Tensor) -> None:
    """Multiply ``delta`` by the slope of the activation, which made ``y`` of ``x``."""
    match name:
        case "relu":
            aten.threshold_backward.grad_input(delta, y, 0, grad_input=delta)
        case "tanh":
            aten.tanh_backward.grad_input(delta, y, grad_input=delta)
        case "sigmoid":
            aten.sigmoid_backward.grad_input(delta, y, grad_input=delta)
        case "elu":
            aten.elu_backward.grad_input(delta, 1.0, 1.0, 1.0, False, x, grad_input=delta)
        case "selu":
            aten.elu_backward.grad_input(
                delta, SELU_ALPHA, SELU_SCALE, 1.0, False, x, grad_input=delta
            )
        case "gelu" | "gelu_tanh":
            form = "none" if name == "gelu" else "tanh"
            aten.gelu_backward.grad_input(delta, x, approximate=form, grad_input=delta)
        case "leaky_relu":
            aten.leaky_relu_backward.grad_input(delta, x, LEAK, False, grad_input=delta)
        case "silu":
            aten.silu_backward.grad_input(delta, x, grad_input=delta)
        case "softplus":
            aten.softplus_backward.grad_input(delta, x, 1.0, 20.0, grad_input=delta)
