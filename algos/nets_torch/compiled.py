"""torch.compile where it works."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

LossFunction = Callable[..., tuple[Tensor, Mapping[str, Tensor]]]


class Compiled:
    """A loss under torch.compile, or as it is, with one warning, where that does not work."""

    def __init__(self, loss: LossFunction) -> None:
        self._plain = loss
        self._compiled: LossFunction | None = None
        self._works = True

    def __call__(self, *inputs: Any) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Return the loss and its numbers by name."""
        if self._works:
            try:
                self._compiled = self._compiled or torch.compile(self._plain)
                return self._compiled(*inputs)
            # Compiling runs a foreign tool chain, which fails in many ways.
            except Exception as error:
                self._works = False
                warnings.warn(
                    "nodes.optimizer.compile: torch.compile does not work here, training goes "
                    f"on without it ({type(error).__name__}: {str(error).partition(chr(10))[0]}). "
                    "Install a C++ compiler or set it to false.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self._plain(*inputs)
