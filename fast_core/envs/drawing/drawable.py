"""Environments that can be drawn while they are stepped."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class NotYet(Exception):
    """It can't be drawn yet, but perhaps soon; the message says what it waits for."""


class Present(NamedTuple):
    """Where an environment is in its open episode.

    Attributes:
        episode: Its number, from 0.
        seed: Seed of the reset that began it, 0 where it has none of its own.
        step: Steps taken in it.
        total: Sum of their rewards, NaN where that is not known.
    """

    episode: int
    seed: int
    step: int
    total: float


def _nothing() -> None:
    pass


def _as_it_is(most: int) -> None:
    pass


class Drawable(NamedTuple):
    """One environment, for whoever draws it.

    Attributes:
        render: Draws it; may raise anything.
        parts: What may have random numbers of its own: the environment and its wrappers.
        why_not: Why it can't be drawn; empty where it can.
        apart: Whether a thread of its own may draw it. Not so where it was made to draw without
            us: what it draws with may be bound to the thread in which it is stepped.
        close: Closes it, once, with those that can only be closed together.
        fit: Lets pictures have at most so many pixels in each direction from the first one on,
            where that saves time.
        pose: Gives the numbers that it is drawn from (`fast_core.envs.drawing.poses`); None where
            it is drawn from more than that.
        leave: Lets nobody close it any more, since a call that did not come back may hold what
            closing needs.
    """

    render: Callable[[], object]
    parts: tuple[object, ...] = ()
    why_not: str = ""
    apart: bool = True
    close: Callable[[], None] = _nothing
    leave: Callable[[], None] = _nothing
    fit: Callable[[int], None] = _as_it_is
    pose: Callable[[], NDArray[np.float64] | None] | None = None
