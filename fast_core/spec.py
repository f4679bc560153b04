"""What arrays look like: fields, spaces and environments, free of torch and gymnasium."""

from __future__ import annotations

import math
from typing import Literal

import msgspec
import numpy as np

Axes = Literal["T", "T+1"]


class FieldSpec(msgspec.Struct, frozen=True):
    """One named column of a rollout.

    Attributes:
        name: Field name, for instance ``"reward"``.
        shape: Shape of one row, without the leading ``[T, B]`` axes.
        dtype: NumPy dtype name; stored exactly as declared.
        axes: ``"T"`` for one row per step, ``"T+1"`` where the row after the last step is
            needed too (observations: the last row is what the bootstrap value is taken of).
        unit: Unit of the values, empty when they have none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    axes: Axes = "T"
    unit: str = ""

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row of one environment."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def array_shape(self, steps: int, envs: int) -> tuple[int, ...]:
        """Shape of the whole column, ``[T, B, ...]`` or ``[T + 1, B, ...]``."""
        rows = steps + 1 if self.axes == "T+1" else steps
        return (rows, envs, *self.shape)


class SpaceSpec(msgspec.Struct, frozen=True):
    """An observation or action space.

    Attributes:
        kind: ``"box"`` (real vector or array) or ``"discrete"`` (``n`` choices from ``start``).
        shape: Shape of one element; ``()`` for discrete.
        dtype: NumPy dtype name of one element.
        n: Number of choices of a discrete space, 0 for a box.
        start: First choice of a discrete space.
        low: Lower bounds of a box, flattened; infinite where unbounded.
        high: Upper bounds of a box, flattened.
    """

    kind: Literal["box", "discrete"]
    shape: tuple[int, ...]
    dtype: str
    n: int = 0
    start: int = 0
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Number of elements of one flattened value."""
        return math.prod(self.shape)


class EnvironmentSpec(msgspec.Struct, frozen=True):
    """What a run needs to know of its environment before any node exists.

    Attributes:
        id: Registered name.
        observation: Observation space.
        action: Action space.
        max_episode_steps: Time limit in environment steps, or None.
        repeatable: Whether ``reset(seed)`` and the same actions gave the same observations
            twice when it was probed; exact resume needs it.
    """

    id: str
    observation: SpaceSpec
    action: SpaceSpec
    max_episode_steps: int | None = None
    repeatable: bool = True
