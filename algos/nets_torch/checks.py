"""Advice where a user's code returned something else than was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from fast_core.errors import ConfigError


def check_scalars(where: str, what: str, scalars: Mapping[str, object]) -> None:
    """Refuse what is no scalar tensor; looks at shapes alone.

    Args:
        where: Whose code gave them.
        what: They are.
        scalars: By name.

    Raises:
        ConfigError: One is none.
    """
    for name, scalar in scalars.items():
        if not is_tensor(scalar, ()):
            raise ConfigError(
                f"{where} must give scalar tensors as {what}; {name!r} is {described(scalar)}."
            )


def check_float32(where: str, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse parameters and buffers of modules, by name, that travel in no vector.

    Raises:
        ConfigError: One is of another type.
    """
    for name, tensor in tensors:
        if tensor.dtype != torch.float32:
            raise ConfigError(
                f"{where}: the parameters and buffers of its modules must be float32; {name} is "
                f"{tensor.dtype}."
            )


def is_tensor(value: object, shape: tuple[int, ...]) -> bool:
    """Whether it is a tensor of this shape."""
    return isinstance(value, Tensor) and value.shape == shape


def described(value: object) -> str:
    """What a message says of a value."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    return f"{value!r}, a {type(value).__name__}"
