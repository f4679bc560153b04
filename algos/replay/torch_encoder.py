"""The convolutions under the networks of a replay learner, in torch."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from fast_core.algos.nets.encoder_shape import EncoderShape
from fast_core.algos.nets_torch.images import convolve
from fast_core.algos.nets_torch.networks import Rows, tensor_view
from fast_core.algos.replay.vectors import Group


class TorchEncoder:
    """Convolutions over a flat vector; autograd differentiates them.

    Args:
        group: Their parameters.
        flat: The tensor with them, read by every pass.
        gradient: The tensor that takes their gradients; None for networks that only look.
        bf16: Whether they compute in bfloat16.
    """

    def __init__(self, group: Group, flat: Tensor, gradient: Tensor | None, *, bf16: bool) -> None:
        assert group.encoder is not None, f"{group.name} is an encoder"
        self._shape, self._bf16 = group.encoder, bf16
        self._leaves = {p.name: tensor_view(flat.detach(), p) for p in group.parameters}
        self._gradients: list[Tensor] = []
        if gradient is not None:
            self._gradients = [tensor_view(gradient, p) for p in group.parameters]
            for leaf in self._leaves.values():
                leaf.requires_grad_()

    def look(self, rows: Rows) -> Tensor:
        """What networks get of the rows, ``[B, size]`` float32; nothing is kept."""
        with torch.no_grad():
            return see(self._shape, self._leaves, rows, bf16=self._bf16)

    def forward(self, rows: Rows) -> Tensor:
        """The same, kept for `backward`."""
        return see(self._shape, self._leaves, rows, bf16=self._bf16)

    def backward(self, seen: Tensor, delta: Tensor) -> None:
        """Write the gradient, ``delta [B, size]`` being that with respect to ``seen``."""
        found = torch.autograd.grad(seen, list(self._leaves.values()), delta)
        for target, gradient in zip(self._gradients, found, strict=True):
            target.copy_(gradient)


def see(
    shape: EncoderShape,
    leaves: dict[str, Tensor],
    rows: Rows,
    *,
    bf16: bool,
    scaled: bool = False,
) -> Tensor:
    """What the convolutions of all images put out, then the numbers: ``[B, size]`` float32.

    Args:
        shape: Of the convolutions.
        leaves: Their parameters, named ``encoder.…``.
        rows: Observations.
        bf16: Whether they compute in bfloat16.
        scaled: Whether the first layer's weights already contain the factor 1/255.
    """
    precision = torch.autocast(rows.vector.device.type, torch.bfloat16) if bf16 else nullcontext()
    with precision:
        parts = [
            convolve(leaves, f"encoder.image{i}", shape.cnn, image, x, bf16=bf16, scaled=scaled)
            for i, (image, x) in enumerate(zip(shape.images, rows.images, strict=True))
        ]
    parts = [part.float() for part in parts]
    if shape.inputs:
        parts.append(rows.vector)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)
