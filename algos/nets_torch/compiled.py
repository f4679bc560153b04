"""torch.compile where it works."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from fast_core.algos.nets_torch.networks import Rows

LossFunction = Callable[[dict[str, Tensor], Rows, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class Compiled:
    """A loss under torch.compile, or as it is, with one warning, where that does not work."""

    def __init__(self, loss: LossFunction) -> None:
        self._plain = loss
        self._compiled: LossFunction | None = None
        self._works = True

    def __call__(
        self,
        leaves: dict[str, Tensor],
        rows: Rows,
        action: Tensor,
        scalars: Tensor,
        clip_epsilon: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and its numbers."""
        if self._works:
            try:
                self._compiled = self._compiled or torch.compile(self._plain)
                return self._compiled(leaves, rows, action, scalars, clip_epsilon)
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
        return self._plain(leaves, rows, action, scalars, clip_epsilon)
