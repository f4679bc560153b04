"""Which actions are allowed: masks, and actions that respect them; free of Gymnasium."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import SpaceSpec
from fast_core.errors import ConfigError

Mask = NDArray[np.bool_]


def choices(action: SpaceSpec) -> tuple[int, ...]:
    """Number of choices in each dimension of an action; the mask has their sum as its length.

    Raises:
        ConfigError: ``action`` is a box, of which no part can be forbidden.
    """
    if action.kind == "discrete":
        return (action.n,)
    if action.kind == "multi_discrete":
        return action.counts
    raise ConfigError(
        "environment.action_mask needs actions that are choices (Discrete, MultiDiscrete or "
        f"MultiBinary); got {action.kind}. Set it to null."
    )


class Masks:
    """The action masks of a batch of environments.

    Attributes:
        array: ``[B, M]``, true where a choice is allowed; a view.
    """

    def __init__(self, array: Mask, action: SpaceSpec) -> None:
        self.array = array
        self._starts = np.cumsum((0, *choices(action)[:-1]))

    def allow_all(self, rows: int | slice = slice(None)) -> None:
        """Allow everything in some rows."""
        self.array[rows] = True

    def open(self, place: int) -> bool:
        """Whether each dimension of one environment's action has an allowed choice."""
        return bool(self._allowed(self.array[place]).all())

    def stuck(self) -> int | None:
        """The first environment that is not `open`, None if there is none."""
        allowed = self._allowed(self.array)
        return None if allowed.all() else int(allowed.all(axis=-1).argmin())

    def cause(self, place: int) -> str:
        """Say what is wrong with the mask of an environment that is not `open`."""
        allowed = self._allowed(self.array[place])
        where = f" in dimension {int(allowed.argmin())}" if len(allowed) > 1 else ""
        return f"its action mask (environment.action_mask) allows no action{where}"

    def _allowed(self, masks: Mask) -> Mask:
        """For each dimension whether anything is allowed: ``[..., M]`` to ``[..., D]``."""
        allowed: Mask = np.logical_or.reduceat(masks, self._starts, axis=-1)
        return allowed


def valid_action(space: SpaceSpec, mask: Array | None = None) -> Array:
    """An action that the space contains, as an environment takes it.

    The first allowed choice, or the point of a box nearest to 0.

    Args:
        space: Action space.
        mask: ``[M]``, non-zero where a choice is allowed (`EnvironmentSpec.action_mask`); None
            where all are.
    """
    if space.kind == "box":
        low, high = space.bounds
        nearest: Array = np.clip(np.zeros(space.shape), low, high).astype(space.dtype)
        return nearest
    allowed = [int(np.argmax(part != 0)) for part in _parts(space, mask)]
    return _as_action(space, allowed)


def random_action(
    space: SpaceSpec, generator: np.random.Generator, mask: Array | None = None
) -> Array:
    """A random action that ``space`` and ``mask`` allow, as an environment takes it.

    Unbounded elements of a box are drawn between -1 and 1.
    """
    if space.kind == "box":
        low, high = space.bounds
        low, high = np.where(np.isfinite(low), low, -1.0), np.where(np.isfinite(high), high, 1.0)
        drawn = generator.uniform(np.minimum(low, high), np.maximum(low, high), space.shape)
        action: Array = np.asarray(drawn).astype(space.dtype)
        return action
    parts = _parts(space, mask)
    return _as_action(space, [int(generator.choice(np.flatnonzero(part))) for part in parts])


def _parts(space: SpaceSpec, mask: Array | None) -> list[Array]:
    """The mask of each dimension."""
    counts = choices(space)
    if mask is None:
        mask = np.ones(sum(counts), np.bool_)
    return np.split(mask, np.cumsum(counts)[:-1])


def _as_action(space: SpaceSpec, chosen: list[int]) -> Array:
    """Choices counted from 0, one for each dimension, in the form of ``space``."""
    starts = (space.start,) if space.kind == "discrete" else space.starts
    return np.add(chosen, starts).astype(space.dtype).reshape(space.shape)
