"""Stacking successive frames of each environment, where a policy acts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Array
from fast_core.algorithm.spec import SpaceSpec


class FrameStack:
    """The last frames of ``B`` environments, the newest last.

    Before an episode's first frame that frame stands again, so nothing of another episode is
    ever seen.

    Attributes:
        array: ``[B, frames, ...]``, what a policy takes.
        age: ``[B]`` uint8, how many earlier frames of the same episode the newest one has, at
            most ``frames - 1``.
    """

    def __init__(self, envs: int, row: SpaceSpec, frames: int) -> None:
        """``row`` is the space of one frame."""
        self.array: Array = np.zeros((envs, frames, *row.shape), row.row_dtype)
        self.age: NDArray[np.uint8] = np.zeros(envs, np.uint8)

    def push(self, rows: Array, began: NDArray[np.bool_]) -> None:
        """Take the newest frames ``[B, ...]``; ``began`` ``[B]`` marks first ones of episodes."""
        stack = self.array
        stack[:, :-1] = stack[:, 1:]
        stack[:, -1] = rows
        self.age += self.age < stack.shape[1] - 1
        if began.any():
            self.begin(rows, began)

    def begin(self, rows: Array, began: NDArray[np.bool_]) -> None:
        """Take the first frames of the episodes ``began``, out of ``rows`` ``[B, ...]``."""
        self.age[began] = 0
        self.array[began] = rows[began, None]
