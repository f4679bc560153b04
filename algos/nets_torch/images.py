"""The forward passes of `nets.images`' convolutions in torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from fast_core.algos.nets.images import BLOCKS, NATURE, SECTIONS, Cnn, ImageShape

PIXEL = 1.0 / 255.0


def convolve(
    leaves: dict[str, Tensor],
    name: str,
    cnn: Cnn,
    image: ImageShape,
    x: Tensor,
    *,
    bf16: bool,
    scaled: bool,
) -> Tensor:
    """What the convolutions make of one image, ``[B, features]``, before the dense layer.

    Args:
        leaves: Parameters by name.
        name: What the names of this image's layers begin with.
        cnn: The network.
        image: What ``x`` is.
        x: ``[B, stack, ...]`` uint8.
        bf16: Whether pixels enter in bfloat16; the caller's autocast does the rest.
        scaled: Whether the first layer's weights already contain the factor 1/255.
    """
    pixels = _channels_last(_planes(image, x)).to(torch.bfloat16 if bf16 else torch.float32)
    torso = _nature if cnn == "nature_cnn" else _residual
    features = torso(leaves, name, pixels, 1.0 if scaled else PIXEL)
    # In the order in which channels-last memory has them: a view.
    return features.permute(0, 2, 3, 1).flatten(1)


def _planes(image: ImageShape, x: Tensor) -> Tensor:
    """Frames ``[B, stack, ...]`` as planes ``[B, stack * channels, H, W]``."""
    if image.axes == "hwc":
        x = x.permute(0, 1, 4, 2, 3)
        return x[:, 0] if image.stack == 1 else x.flatten(1, 2)
    return x.flatten(1, 2) if image.axes == "chw" else x


def _channels_last(planes: Tensor) -> Tensor:
    """Bytes ``[B, P, H, W]`` with the planes of each pixel side by side."""
    if planes.device.type == "cpu" and planes.is_contiguous():
        # A third of the time of `contiguous`, or of `to` with another type at once.
        return torch.stack(planes.unbind(1), -1).permute(0, 3, 1, 2)
    return planes.contiguous(memory_format=torch.channels_last)


def _nature(leaves: dict[str, Tensor], name: str, x: Tensor, scale: float) -> Tensor:
    for index, (_, _, stride) in enumerate(NATURE):
        weight = leaves[f"{name}.conv{index}.weight"]
        if index == 0 and scale != 1.0:
            weight = weight * scale
        x = functional.conv2d(x, weight, leaves[f"{name}.conv{index}.bias"], stride).relu_()
    return x


def _residual(leaves: dict[str, Tensor], name: str, x: Tensor, scale: float) -> Tensor:
    for section in range(len(SECTIONS)):
        here = f"{name}.section{section}"
        weight = leaves[f"{here}.conv.weight"]
        if section == 0 and scale != 1.0:
            weight = weight * scale
        x = functional.conv2d(x, weight, leaves[f"{here}.conv.bias"], padding=1)
        x = functional.max_pool2d(x, 3, 2, 1)
        for block in range(BLOCKS):
            y = _convolution(leaves, f"{here}.block{block}.conv0", x.relu()).relu_()
            x = x + _convolution(leaves, f"{here}.block{block}.conv1", y)
    return x.relu()


def _convolution(leaves: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return functional.conv2d(x, leaves[f"{name}.weight"], leaves[f"{name}.bias"], padding=1)
