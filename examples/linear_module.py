"""What `fastloop export` writes of the actor-critic by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fast_core.algorithm import Array


class LinearModule(nn.Module):
    """`LinearPolicy` without exploration in torch, from observations to actions."""

    def __init__(self, parameters: Sequence[Array], start: int) -> None:
        super().__init__()
        weights = torch.tensor(np.array(parameters[0]))
        self.layer = nn.ParameterList([weights[:-1], weights[-1]])
        self._start = start

    def forward(self, obs: Tensor) -> Tensor:
        """``[B, ...]`` to ``[B]``."""
        weight, bias = self.layer
        return (obs.flatten(1).float() @ weight + bias).argmax(1) + self._start
