"""Which parts of an observation are images, and what convolutional networks make of them.

Free of torch. All sizes and parameters of the networks stand here; `nets_torch.images` has
their forward passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.errors import ConfigError

Cnn = Literal["nature_cnn", "residual_cnn"]
Axes = Literal["hw", "hwc", "chw"]

SMALLEST_IMAGE = 16  # pixels on each side; what is smaller is a vector
SMALLEST_NATURE = 36
NATURE = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # outputs, kernel, stride
NATURE_FEATURES = 512
SECTIONS = (16, 32, 32)  # outputs of each section of the residual network
BLOCKS = 2  # residual blocks of a section
RESIDUAL_FEATURES = 256


@dataclass(frozen=True)
class ImageShape:
    """One image of an observation.

    Attributes:
        part: The part of a composite observation, None where the observation is the image.
        height: Pixels.
        width: Pixels.
        channels: Of one frame.
        stack: Successive frames seen together.
        axes: Order of the axes of one stored frame; height and width alone for one channel.
    """

    part: str | None
    height: int
    width: int
    channels: int
    stack: int
    axes: Axes

    @property
    def planes(self) -> int:
        """Input channels of the network: those of all frames."""
        return self.stack * self.channels


def find_images(environment: EnvironmentSpec) -> tuple[ImageShape, ...]:
    """The parts of an observation that are images: uint8, at least 16 pixels on each side."""
    if environment.observation.kind != "composite":
        image = _image(environment.row, None, environment.frames)
        return (image,) if image else ()
    parts = environment.observation.parts
    images = (_image(space, name, 1) for name, space in parts if name != environment.action_mask)
    return tuple(image for image in images if image)


def _image(space: SpaceSpec, part: str | None, stack: int) -> ImageShape | None:
    shape = space.shape
    if space.kind != "box" or space.dtype != "uint8" or len(shape) not in (2, 3):
        return None
    if len(shape) == 2:
        height, width, channels, axes = *shape, 1, "hw"
    elif shape[0] < SMALLEST_IMAGE:
        channels, height, width, axes = *shape, "chw"
    else:
        height, width, channels, axes = *shape, "hwc"
    if min(height, width) < SMALLEST_IMAGE:
        return None
    return ImageShape(part, height, width, channels, stack, axes)  # type: ignore[arg-type]


def fitting_cnn(images: tuple[ImageShape, ...]) -> Cnn:
    """The network for these images: Nature's, or the residual one where one is too small."""
    smallest = min(min(image.height, image.width) for image in images)
    return "nature_cnn" if smallest >= SMALLEST_NATURE else "residual_cnn"


def check_cnn(cnn: Cnn, images: tuple[ImageShape, ...], environment_id: str) -> None:
    """Refuse a network that can't see these images.

    Raises:
        ConfigError: There is no image, or one is too small.
    """
    if not images:
        raise ConfigError(
            f"algorithm.network {cnn!r} needs an image in the observation (uint8, [H, W] or "
            f"[H, W, C], at least {SMALLEST_IMAGE} pixels on each side); {environment_id!r} has "
            "none. Use mlp or auto."
        )
    for image in images:
        if cnn == "nature_cnn" and min(image.height, image.width) < SMALLEST_NATURE:
            raise ConfigError(
                f"algorithm.network 'nature_cnn' needs images of at least {SMALLEST_NATURE} "
                f"pixels on each side; {environment_id!r} has {image.height} x {image.width}"
                f"{'' if image.part is None else f' in {image.part!r}'}. Use residual_cnn, which "
                f"fits from {SMALLEST_IMAGE} pixels on."
            )


@dataclass(frozen=True)
class Layer:
    """One layer of a convolutional network: ``weight`` and ``bias`` under ``name``.

    Attributes:
        name: Within the network of one image.
        shape: Of the weight: ``[out, in, kernel, kernel]``, or ``[out, in]`` for the last one.
        positions: Places where it is applied.
    """

    name: str
    shape: tuple[int, ...]
    positions: int

    @property
    def products(self) -> int:
        """Multiplications of one row's forward pass."""
        return math.prod(self.shape) * self.positions


def cnn_features(cnn: Cnn) -> int:
    """Numbers that the network makes of one image."""
    return NATURE_FEATURES if cnn == "nature_cnn" else RESIDUAL_FEATURES


def cnn_layers(cnn: Cnn, image: ImageShape) -> Iterator[Layer]:
    """The layers of the network of one image, in their order.

    The last one takes the pixels in the order ``[height, width, channel]``.

    Source: Mnih et al. 2015, doi:10.1038/nature14236 (nature_cnn); the residual network is the
    larger one of Espeholt et al. 2018, arXiv:1802.01561, figure 3, without its LSTM.
    """
    return _nature(image) if cnn == "nature_cnn" else _residual(image)


def sees_pixels(parameter: str) -> bool:
    """Whether a parameter is the weight of an image's first layer."""
    _, _, layer = parameter.rpartition(".image")
    return layer.partition(".")[2] in ("conv0.weight", "section0.conv.weight")


def _nature(image: ImageShape) -> Iterator[Layer]:
    height, width, inputs = image.height, image.width, image.planes
    for index, (outputs, kernel, stride) in enumerate(NATURE):
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        yield Layer(f"conv{index}", (outputs, inputs, kernel, kernel), height * width)
        inputs = outputs
    yield Layer("features", (NATURE_FEATURES, height * width * inputs), 1)


def _residual(image: ImageShape) -> Iterator[Layer]:
    height, width, inputs = image.height, image.width, image.planes
    for section, outputs in enumerate(SECTIONS):
        yield Layer(f"section{section}.conv", (outputs, inputs, 3, 3), height * width)
        height, width, inputs = (height + 1) // 2, (width + 1) // 2, outputs
        for block in range(BLOCKS):
            for half in range(2):
                name = f"section{section}.block{block}.conv{half}"
                yield Layer(name, (outputs, outputs, 3, 3), height * width)
    yield Layer("features", (RESIDUAL_FEATURES, height * width * inputs), 1)
