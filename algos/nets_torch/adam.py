"""Adam over one flat tensor: torch's fused one, without the class around it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.adam import adam

from fast_core.algos.nets.adam import BETAS
from fast_core.algos.nets.networks import F32


class FlatAdam:
    """Torch's fused Adam of one tensor, bit for bit.

    The function that `torch.optim.Adam` ends in, because the class imports torch's compiler when
    the first is made: as long again as torch itself, in every learner's process.

    Args:
        parameters: What is stepped, in place.
        gradient: Read at each step; of the same shape, device and type.
        epsilon: The denominator's offset.
    """

    def __init__(self, parameters: Tensor, gradient: Tensor, *, epsilon: float) -> None:
        self._parameters, self._gradient = parameters.detach(), gradient
        self._epsilon = epsilon
        self._first, self._second = (torch.zeros_like(self._parameters) for _ in range(2))
        self._steps = torch.zeros((), device=parameters.device)

    @torch.no_grad()
    def step(self, learning_rate: float, *, bad: Tensor | None = None) -> None:
        """Move the parameters along the gradient.

        Args:
            learning_rate: Of this step.
            bad: 1.0 on the device where no step is to be taken, else 0.0; None: one is.
        """
        beta1, beta2 = BETAS
        adam(
            [self._parameters],
            [self._gradient],
            [self._first],
            [self._second],
            [],
            [self._steps],
            fused=True,
            found_inf=bad,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=learning_rate,
            weight_decay=0.0,
            eps=self._epsilon,
            maximize=False,
        )

    def moments(self) -> tuple[F32, F32]:
        """Copies of the first and second moment, on the host."""
        first, second = (t.cpu().numpy().copy() for t in (self._first, self._second))
        return first, second

    @property
    def steps(self) -> int:
        """Steps taken."""
        return int(self._steps.item())

    def load(self, first: F32, second: F32, steps: int) -> None:
        """Go on from these moments and this number of steps."""
        self._first.copy_(torch.tensor(first))  # a copy: they may be read-only
        self._second.copy_(torch.tensor(second))
        self._steps.fill_(float(steps))
