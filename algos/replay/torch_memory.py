"""The recurrent layer under all networks, and the sequences that it is unrolled over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fast_core.algos.nets.recurrent_shape import MemoryShape
from fast_core.algos.nets_torch.networks import Rows
from fast_core.algos.nets_torch.recurrent import TorchMemory


class RecurrentLayer(nn.Module):
    """A GRU or LSTM, as `nets_torch.recurrent` computes it, always in float32."""

    def __init__(self, shape: MemoryShape) -> None:
        super().__init__()
        self._run = TorchMemory(shape)
        self._leaves: dict[str, Tensor] = {}
        for name, size in shape.parameters:
            parameter = self._leaves[name] = nn.Parameter(torch.zeros(size))
            self.register_parameter(name.replace(".", "_"), parameter)

    def forward(self, features: Tensor, state: Tensor, keep: Tensor) -> Tensor:
        """What leaves it after each step, ``[T, N, H]``; see `TorchMemory.unroll`."""
        return self._run.unroll(self._leaves, features, state, keep)

    def after(self, features: Tensor, state: Tensor, keep: Tensor) -> Tensor:
        """The state ``[N, S]`` after all steps, without a gradient."""
        return self._run.states(self._leaves, features, state, keep)[-1]


@dataclass(frozen=True)
class Sequences:
    """Observations of ``N`` sequences on the device, all of one time after the other.

    Attributes:
        before: ``[b * N]``, what the memory is warmed up with; no gradient flows there.
        rows: ``[T * N]``, those after.
        state: ``[N, S]`` before the first of all.
        keep: ``[b + T, N]``, what multiplies the state that enters.
        unrolled: ``[T * N, H]``, what each of the networks has made of them.
    """

    before: Rows
    rows: Rows
    state: Tensor
    keep: Tensor
    unrolled: dict[nn.Module, Tensor] = field(default_factory=dict)


class Picked(NamedTuple):
    """Some rows of sequences; `Networks.see` unrolls all of them once.

    Attributes:
        sequences: All rows.
        at: ``[M]``, which, from the first after the warm-up on.
        mask: ``[M, n]``, the choices that are allowed; None: all.
    """

    sequences: Sequences
    at: Tensor
    mask: Tensor | None
