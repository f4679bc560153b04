"""The same scale in torch: what heads say, and their losses."""

from __future__ import annotations

import torch
from torch import Tensor

SLOPE = 0.001  # of the scale, far from 0


def compressed(x: Tensor) -> Tensor:
    """``h(x)``, which grows like the root of ``x``; see `support.Support`."""
    return torch.sign(x) * (torch.sqrt(x.abs() + 1) - 1) + SLOPE * x


def expanded(y: Tensor) -> Tensor:
    """The ``x`` of which `compressed` makes ``y``.

    The root of a square equation, in the form that takes no difference of near numbers: float32
    has six digits of it everywhere.
    """
    above = y.abs() + (1 + SLOPE)
    root = 2 * above / (1 + torch.sqrt(1 + 4 * SLOPE * above))
    return torch.sign(y) * (root.square() - 1)


class TorchSupport:
    """As `support.Support`.

    Args:
        most: Categories on either side of that of 0; 0: a head says the compressed number itself.
        device: Where it is used.
    """

    def __init__(self, most: int, device: torch.device) -> None:
        self._most = most
        self._atoms = torch.arange(-most, most + 1, dtype=torch.float32, device=device)

    def decode(self, said: Tensor) -> Tensor:
        """The numbers ``[...]`` that a head's ``[..., outputs]`` says."""
        if not self._most:
            return expanded(said[..., 0])
        return expanded(torch.softmax(said, -1) @ self._atoms)

    def loss(self, said: Tensor, target: Tensor) -> Tensor:
        """Of what a head says ``[..., outputs]`` for numbers ``[...]``: ``[...]``.

        The cross-entropy to the two categories that a number lies between, each with the share by
        which it is near (equation of appendix F); of numbers beyond the last one, to that. Of the
        compressed number itself half the square of its error.
        """
        scaled, most = compressed(target), self._most
        if not most:
            return 0.5 * (said[..., 0] - scaled).square()
        scaled = scaled.clamp(-most, most)
        below = scaled.floor().clamp(max=most - 1)
        share = scaled - below
        place = (below.nan_to_num() + most).long()[..., None]  # of NaN the share is NaN
        log = torch.log_softmax(said, -1)
        low, high = (log.gather(-1, place + more).squeeze(-1) for more in (0, 1))
        return -torch.lerp(low, high, share)

    def beyond(self, target: Tensor) -> Tensor:
        """The share of numbers that lie beyond the last category."""
        if not self._most:
            return target.new_zeros(())
        return (compressed(target).abs() > self._most).float().mean()
