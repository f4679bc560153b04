"""The random numbers of an environment, which drawing it must leave alone."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np

_OWN = (np.random.Generator, np.random.RandomState, random.Random)
# The legacy one is what environments may draw from, so it is what must be kept.
_GLOBAL = np.random.mtrand._rand


class RandomStates:
    """The state of every random number generator that drawing an environment could move.

    Those are the generators that are attributes of ``parts`` (`gymnasium.Env.np_random` among
    them) and of their spaces, Python's `random` and NumPy's global one.
    """

    def __init__(self, parts: Iterable[object]) -> None:
        """Keep the states as they are now."""
        self._kept: list[tuple[object, str, object, object]] = []
        for owner, name, generator in _generators(parts):
            with suppress(Exception):  # those of the operating system have none
                self._kept.append((owner, name, generator, _state(generator)))
        self._python = random.getstate()
        self._numpy = _state(_GLOBAL)

    def put_back(self) -> bool:
        """Bring every generator back to where it was; whether one had moved."""
        moved = False
        for owner, name, generator, state in self._kept:
            if vars(owner).get(name) is not generator:
                setattr(owner, name, generator)
                moved = True
            if not _equal(_state(generator), state):
                _set_state(generator, state)
                moved = True
        if random.getstate() != self._python:
            random.setstate(self._python)
            moved = True
        if not _equal(_state(_GLOBAL), self._numpy):
            _set_state(_GLOBAL, self._numpy)
            moved = True
        return moved


def _generators(parts: Iterable[object]) -> Iterator[tuple[object, str, object]]:
    """Owner, name and generator of each that is an attribute."""
    for part in parts:
        for name, value in list(getattr(part, "__dict__", {}).items()):
            if isinstance(value, _OWN):
                yield part, name, value
            elif isinstance(value, gymnasium.Space):
                for inner, kept in list(vars(value).items()):
                    if isinstance(kept, _OWN):
                        yield value, inner, kept


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def _equal(one: Any, other: Any) -> bool:
    """Whether two states are the same; those of some generators have arrays in them."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)
