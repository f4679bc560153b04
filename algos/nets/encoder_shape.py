"""Convolutions that several networks see through: their shape, parameters and first values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.nets.images import (
    Cnn,
    ImageShape,
    Layer,
    check_cnn,
    cnn_layers,
    find_images,
    fitting_cnn,
)
from fast_core.algos.nets.networks import F32, Parameter, draw_weight
from fast_core.algos.nets.observations import encoded_size
from fast_core.errors import ConfigError


@dataclass(frozen=True)
class EncoderShape:
    """The convolutions of every image of an observation, without a dense layer on them.

    What they make of the images stands side by side, followed by the numbers of the observation.

    Attributes:
        images: At least one.
        cnn: The convolutional network for each of them.
        inputs: Numbers of an observation beside its images.
    """

    images: tuple[ImageShape, ...]
    cnn: Cnn
    inputs: int

    @property
    def size(self) -> int:
        """Numbers that networks get of one observation."""
        return self.inputs + sum(_features(self.cnn, image) for image in self.images)

    @property
    def products(self) -> int:
        """Multiplications of one row's forward pass."""
        return sum(layer.products for image in self.images for layer in _layers(self.cnn, image))

    def parameters(self, name: str, offset: int) -> tuple[Parameter, ...]:
        """Weights and biases, image by image and layer by layer, from ``offset`` on."""
        found: list[Parameter] = []
        for index, image in enumerate(self.images):
            for layer in _layers(self.cnn, image):
                place = f"{name}.image{index}.{layer.name}"
                weight = Parameter(f"{place}.weight", layer.shape, offset)
                bias = Parameter(f"{place}.bias", (layer.shape[0],), weight.end)
                found += [weight, bias]
                offset = bias.end
        return tuple(found)


def draw_encoder_values(
    parameters: tuple[Parameter, ...], flat: F32, rng: np.random.Generator
) -> None:
    """Draw orthogonal weights; biases stay 0.

    Source: what DrQ (arXiv:2004.13649, appendix) does with convolutions.
    """
    for parameter in parameters:
        if parameter.name.endswith(".weight"):
            draw_weight(parameter, flat, rng)


def find_encoder(network: str, environment: EnvironmentSpec) -> EncoderShape | None:
    """What ``algorithm.network`` makes of an environment's images; None for hidden layers only.

    Args:
        network: ``auto``, ``mlp`` or a convolutional network.
        environment: What is observed.

    Raises:
        ConfigError: The network can't see what is observed.
    """
    images = () if network == "mlp" else find_images(environment)
    if network == "nature_cnn" or network == "residual_cnn":
        cnn: Cnn = "nature_cnn" if network == "nature_cnn" else "residual_cnn"
        check_cnn(cnn, images, environment.id)
    elif images:
        cnn = fitting_cnn(images)
    else:
        return None
    return EncoderShape(images, cnn, encoded_size(environment, images))


def no_convolutions(environment: EnvironmentSpec) -> ConfigError:
    """What a policy says that is to compute them in NumPy."""
    return ConfigError(
        f"policy.backend 'numpy' has no convolutions; {environment.id!r} has images. Use auto or "
        "torch, or algorithm.network: mlp."
    )


def _layers(cnn: Cnn, image: ImageShape) -> Iterator[Layer]:
    return (layer for layer in cnn_layers(cnn, image) if layer.name != "features")


def _features(cnn: Cnn, image: ImageShape) -> int:
    """Numbers that the convolutions put out, which enter the dense layer."""
    *_, dense = cnn_layers(cnn, image)
    return dense.shape[1]
