"""What follows a hidden layer, in torch; `nets.activations` says which there are.

`IN_PLACE` has those of them that may overwrite what they are called with, and still know their
slope from what they put out; the others are as in `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.nets.activations import LEAK, Activation

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
IN_PLACE: dict[Activation, Callable[[Tensor], Tensor]] = {
    **FUNCTIONS,
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "sigmoid": torch.sigmoid_,
}
