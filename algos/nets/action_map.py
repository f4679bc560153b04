"""From actions as they are stored to what environments take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.nets.networks import F32

UNBOUNDED = 1e30  # some environments give the greatest float as a bound


class ActionMap:
    """From actions as rollouts store them to what environments take.

    Args:
        space: What they take.
        stretch: Whether boxes are stored as [-1, 1] where both bounds are finite.

    Attributes:
        space: What they take.
        starts: First choice of each dimension of a multi-discrete action.
        low: Lower bounds of a box, in its dtype.
        high: Upper bounds.
        half: What stored actions are multiplied with before ``middle`` is added; None where they
            are in the box's units.
        middle: The middle of the box.
    """

    def __init__(self, space: SpaceSpec, *, stretch: bool = False) -> None:
        self.space = space
        self.half: F32 | None = None
        self.starts = np.asarray(space.starts, np.int64)
        if space.kind == "box":
            # In the space's own precision: float32 rounds some bounds of others to the outside.
            self.low, self.high = (bound.astype(space.dtype) for bound in space.bounds)
            half, middle = halves(space)
            if stretch and ((half != 1.0) | (middle != 0.0)).any():
                self.half = half.astype(np.float32)
                self.middle: F32 = middle.astype(np.float32)

    def __call__(self, action: Array) -> Array:
        """Stretch and clip ``[B, ...]`` to the box, or count from the space's first choices."""
        space = self.space
        if space.kind == "discrete":
            return action + space.start if space.start else action
        if space.kind == "multi_discrete":
            choices = action.reshape(len(action), -1).astype(np.int64, copy=False)
            if self.starts.any():
                choices = choices + self.starts
            return choices.reshape(len(action), *space.shape).astype(space.dtype, copy=False)
        if self.half is not None:
            action = action.astype(np.float32, copy=False) * self.half
            action += self.middle
        within: Array = np.maximum(action.astype(space.dtype, copy=False), self.low)
        np.minimum(within, self.high, out=within)
        return within

    def stored(self, action: Array) -> F32:
        """Of actions ``[B, ...]`` of a box as environments took them, as rollouts store them.

        What was clipped is not known any more.
        """
        found: F32 = np.asarray(action, np.float32)
        return found if self.half is None else (found - self.middle) / self.half


def halves(space: SpaceSpec) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Half the width and the middle of a box's elements; 1 and 0 where a bound is not finite."""
    low, high = space.bounds
    bounded = (np.abs(low) < UNBOUNDED) & (np.abs(high) < UNBOUNDED)
    low, high = np.where(bounded, low, -1.0), np.where(bounded, high, 1.0)
    return (high - low) / 2, (low + high) / 2


def in_units(to_environment: ActionMap, mean: F32, std: F32) -> tuple[F32, F32]:
    """Mean and deviation ``[A]`` of stored actions as the environment takes them, not clipped."""
    if to_environment.half is None:
        return mean, std
    half, middle = to_environment.half.reshape(-1), to_environment.middle.reshape(-1)
    return mean * half + middle, std * half
