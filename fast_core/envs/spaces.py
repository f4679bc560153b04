"""Gymnasium's spaces as FastLoop's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from fast_core.algorithm.spec import Branch, SpaceSpec, Tree
from fast_core.errors import ConfigError

Space = gymnasium.Space[Any]
MOST_CHOICES = 65_536  # of an action; each is an output of a network


@dataclass(frozen=True)
class ObservationForm:
    """How an environment gives its observations.

    Attributes:
        space: What FastLoop makes of them.
        tree: Where the leaves of a composite space lie in what the environment returns; the
            name of the only leaf otherwise, empty.
    """

    space: SpaceSpec
    tree: Tree


def observation_form(space: Space, what: str) -> ObservationForm:
    """Describe an observation space; shapes and dtypes are kept as it declares them.

    Dict and Tuple spaces, nested ones too, become a composite space whose leaves are named by
    their path: ``"arm/joints"``, ``"0"``. MultiBinary becomes a box of zeros and ones.

    Args:
        space: Space of an environment.
        what: Whose space it is, for errors.

    Raises:
        ConfigError: FastLoop can't handle this kind of space.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return ObservationForm(_leaf_spec(space, what), "")
    leaves = [(name, _leaf_spec(leaf, f"{what}, part {name!r},")) for name, leaf in _leaves(space)]
    if not leaves:
        raise ConfigError(f"{what} is {space!r}, which has no parts. Wrap the environment.")
    _check_names([name for name, _ in leaves], what)
    return ObservationForm(SpaceSpec.composite(leaves), _tree(space, ""))


def action_spec(space: Space, what: str) -> SpaceSpec:
    """Describe an action space; every element of MultiBinary and of a Box of integers is a choice.

    Raises:
        ConfigError: FastLoop can't handle this kind of space, or it has nothing to choose.
    """
    if 0 in (space.shape or ()):
        raise ConfigError(
            f"{what} is {space!r}, which has no elements. Wrap the environment so that there is "
            "something to choose."
        )
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).kind in "iub":
        return _choices(space, what)
    if isinstance(space, spaces.MultiBinary):
        counts = (2,) * int(np.prod(space.shape))
        return SpaceSpec("multi_discrete", *_form(space), counts=counts, starts=(0,) * len(counts))
    if isinstance(space, spaces.Dict | spaces.Tuple):
        raise ConfigError(
            f"{what} is {space!r}; FastLoop takes actions of one kind: Box, Discrete, "
            "MultiDiscrete or MultiBinary. Wrap the environment so that its action space is one "
            "of these: several choices fit into one MultiDiscrete, several boxes into one Box "
            "(derive from gymnasium.ActionWrapper and name it in environment.wrappers)."
        )
    return _leaf_spec(space, what)


def _leaf_spec(space: Space, what: str) -> SpaceSpec:
    if isinstance(space, spaces.Discrete):
        return SpaceSpec("discrete", *_form(space), n=int(space.n), start=int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = (tuple(each.ravel().tolist()) for each in (space.nvec, space.start))
        return SpaceSpec("multi_discrete", *_form(space), counts=counts, starts=starts)
    if isinstance(space, spaces.MultiBinary):
        return SpaceSpec("box", *_form(space), low=(0.0,), high=(1.0,))
    if isinstance(space, spaces.Box):  # of any integers, floats or bools
        return SpaceSpec("box", *_form(space), low=_bounds(space.low), high=_bounds(space.high))
    raise ConfigError(
        f"{what} is {space!r}; FastLoop supports Box of numbers, Discrete, MultiDiscrete, "
        "MultiBinary, and in observations Dict and Tuple of these. Wrap the environment so that "
        "its space is one of them (derive from gymnasium.ObservationWrapper or ActionWrapper and "
        "name it in environment.wrappers): for instance a sequence as a box of its greatest length "
        "beside its length, a text as the numbers of its characters."
    )


def _choices(space: spaces.Box, what: str) -> SpaceSpec:
    """A box of integers as choices, of which each element has as many as its bounds allow."""
    low, high = ([int(bound) for bound in bounds.ravel()] for bounds in (space.low, space.high))
    counts = tuple(last - first + 1 for first, last in zip(low, high, strict=True))
    if sum(counts) > MOST_CHOICES:
        raise ConfigError(
            f"{what} is {space!r}, whose integers are choices, {sum(counts)} in all; FastLoop "
            f"takes at most {MOST_CHOICES}. Say which are used: environment.wrappers: [{{name: "
            "'fast_core.envs.wrappers:BoundAction', kwargs: {low: 0, high: 9}}]."
        )
    return SpaceSpec("multi_discrete", *_form(space), counts=counts, starts=tuple(low))


def _form(space: Space) -> tuple[tuple[int, ...], str]:
    """Shape and dtype."""
    return tuple(space.shape or ()), str(space.dtype)


def _bounds(values: NDArray[Any]) -> tuple[float, ...]:
    """Flattened; one number where all are equal, since an image has thousands of them."""
    flat = values.ravel()
    if flat.size and (flat == flat[0]).all():
        flat = flat[:1]
    return tuple(map(float, flat.tolist()))


def _children(space: Space) -> list[tuple[Any, Space]]:
    """Key and space of each part of a Dict or Tuple space."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces)) if isinstance(space, spaces.Tuple) else []


def _leaves(space: Space, prefix: str = "") -> Iterator[tuple[str, Space]]:
    for key, child in _children(space):
        if isinstance(child, spaces.Dict | spaces.Tuple):
            yield from _leaves(child, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", child


def _tree(space: Space, prefix: str) -> Branch:
    children = [
        _tree(child, f"{prefix}{key}/")
        if isinstance(child, spaces.Dict | spaces.Tuple)
        else f"{prefix}{key}"
        for key, child in _children(space)
    ]
    keys = tuple(key for key, _ in _children(space))
    return Branch(prefix.rstrip("/"), keys, tuple(children), isinstance(space, spaces.Dict))


def _check_names(names: list[str], what: str) -> None:
    for name in names:
        if not name or names.count(name) > 1:
            problem = f"has two parts named {name!r}" if name else "has a part without a name"
            raise ConfigError(
                f"{what} {problem}; each needs a name (its path, joined by '/') of its own. "
                "Rename the keys with a wrapper."
            )
