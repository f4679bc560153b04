"""A user's own network as far as it is known without torch: what it is called with, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from fast_core.algorithm.spec import EnvironmentSpec, ModuleSpec, SpaceSpec
from fast_core.algos.nets.images import ImageShape, find_images
from fast_core.errors import ConfigError
from fast_core.system.importing import own

KEY = "algorithm.network"
Network = Annotated[
    str,
    Meta(
        pattern=r"^(auto|mlp|nature_cnn|residual_cnn|[^\s:]+:[^\s:]+)$",
        title="'auto' or 'mlp' or 'nature_cnn' or 'residual_cnn', or a torch.nn.Module of your "
        "own as 'package.module:Class'",
    ),
]
Arguments = Annotated[
    dict[str, Any],
    Meta(
        description="Arguments of a network of your own, beside the observation "
        "(docs/own-networks.md)."
    ),
]


def is_own(network: str) -> bool:
    """Whether ``algorithm.network`` names a user's module."""
    return ":" in network


def needs_torch(network: str, *, pixels: bool) -> bool:
    """Whether a network surely is torch's, before the environment is known.

    Args:
        network: ``algorithm.network``.
        pixels: Whether images are surely observed.
    """
    return (
        network in ("nature_cnn", "residual_cnn")
        or (network == "auto" and pixels)
        or is_own(network)
    )


@dataclass(frozen=True)
class Part:
    """Where a part of an observation is in encoded rows.

    Attributes:
        name: Of the part; empty where the observation has none.
        space: What one row of it looks like to the module.
        place: Its columns of the numbers; None for an image.
        image: Which image it is, -1 for numbers.
        single: Whether it is one frame, which encoded rows have an axis for.
    """

    name: str
    space: SpaceSpec
    place: slice | None
    image: int = -1
    single: bool = False


@dataclass(frozen=True)
class OwnShape:
    """A user's module for an environment.

    Attributes:
        path: ``package.module:Class``.
        kwargs: Its arguments beside the observation.
        observation: What it is told, and called with: boxes, float32, or uint8 where they are
            images.
        parts: The observation's parts.
        images: Those of them that are images.
        spec: What is known of the module; None where nobody looked yet.
        actions: Numbers of an action that it is called with besides; 0: without.
        choices: Choices of an action, if it may score them itself; 0: a head does.
    """

    path: str
    kwargs: Mapping[str, Any] = field(hash=False)
    observation: SpaceSpec
    parts: tuple[Part, ...] = field(hash=False)
    images: tuple[ImageShape, ...]
    spec: ModuleSpec | None = None
    actions: int = 0
    choices: int = 0

    @property
    def known(self) -> ModuleSpec:
        """What was found when the module was looked at."""
        assert self.spec is not None, "Blueprint.examine comes first"
        return self.spec


def own_shape(path: str, kwargs: Mapping[str, Any], environment: EnvironmentSpec) -> OwnShape:
    """What a module is called with in an environment."""
    images = find_images(environment)
    space, mask = environment.observation, environment.action_mask
    composite = space.kind == "composite"
    leaves = [leaf for leaf in space.parts if leaf[0] != mask] if composite else [("", space)]
    image_of = {image.part or "": index for index, image in enumerate(images)}
    parts, column = [], 0  # as `observations.ObservationEncoder` puts them side by side
    for name, leaf in leaves:
        if name in image_of:
            index = image_of[name]
            single = images[index].stack == 1
            parts.append(Part(name, leaf, None, index, single))
            continue
        seen = _numbers(leaf)
        parts.append(Part(name, seen, slice(column, column + seen.size)))
        column += seen.size
    observation = (
        SpaceSpec.composite([(part.name, part.space) for part in parts])
        if composite
        else parts[0].space
    )
    return OwnShape(path, kwargs, observation, tuple(parts), images)


def _numbers(space: SpaceSpec) -> SpaceSpec:
    """What is left of a space once it is numbers: choices are one-hot."""
    if space.kind == "discrete":
        return SpaceSpec("box", (space.n,), "float32", low=(0.0,), high=(1.0,))
    if space.kind == "multi_discrete":
        return SpaceSpec("box", (sum(space.counts),), "float32", low=(0.0,), high=(1.0,))
    return SpaceSpec("box", space.shape or (1,), "float32", low=space.low, high=space.high)


def examined(shape: OwnShape, name: str) -> ModuleSpec:
    """Try the module; imports torch.

    Raises:
        ConfigError: It is not what an algorithm needs.
    """
    spec: ModuleSpec = own("fast_core.algos.nets_torch.own:examine")(shape, name)
    return spec


def check_arguments(network: str, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments without a module that takes them.

    Raises:
        ConfigError: There are some.
    """
    if kwargs and not is_own(network):
        raise ConfigError(
            f"algorithm.network_kwargs are for a network of your own (algorithm.network: "
            f"package.module:Class); got {', '.join(kwargs)} with {network!r}. Leave them out."
        )
