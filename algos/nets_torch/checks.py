"""Advice where a user's code returned something else than was asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
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
