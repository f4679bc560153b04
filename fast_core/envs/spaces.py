"""Gymnasium's spaces as FastLoop's."""

from __future__ import annotations

import gymnasium

from fast_core.errors import ConfigError
from fast_core.spec import SpaceSpec


def space_spec(space: gymnasium.Space[object], what: str) -> SpaceSpec:
    """Describe ``space``; shape and dtype are kept as it declares them.

    Args:
        space: Space of an environment.
        what: Whose space it is, for the error.

    Raises:
        ConfigError: FastLoop can't handle this kind of space.
    """
    if isinstance(space, gymnasium.spaces.Discrete):
        return SpaceSpec(
            kind="discrete",
            shape=(),
            dtype=str(space.dtype),
            n=int(space.n),
            start=int(space.start),
        )
    if isinstance(space, gymnasium.spaces.Box) and space.dtype.kind in "fiub":
        return SpaceSpec(
            kind="box",
            shape=tuple(space.shape),
            dtype=str(space.dtype),
            low=tuple(space.low.ravel().tolist()),
            high=tuple(space.high.ravel().tolist()),
        )
    raise ConfigError(
        f"{what} is {space!r}; FastLoop supports Box of numbers and Discrete. Wrap the "
        "environment so that its space is one of these (gymnasium.wrappers.FlattenObservation "
        "and TransformAction do it for many)."
    )
