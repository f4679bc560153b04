"""From observations as environments give them to the rows that networks take."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from algos.networks import F32
from fast_core.spec import SpaceSpec


class ObservationEncoder:
    """Flattens boxes and turns discrete observations into one-hot rows."""

    def __init__(self, space: SpaceSpec) -> None:
        self._start = space.start
        self._one_hot: F32 | None = None
        if space.kind == "discrete":
            self._one_hot = np.eye(space.n, dtype=np.float32)
        self.size = encoded_size(space)

    def encode(self, obs: NDArray[np.generic]) -> F32:
        """Map ``[B, ...]`` to ``[B, size]`` float32; may share memory with ``obs``."""
        if self._one_hot is not None:
            rows: F32 = self._one_hot[obs.reshape(-1) - self._start]
            return rows
        return obs.reshape(len(obs), self.size).astype(np.float32, copy=False)


def encoded_size(space: SpaceSpec) -> int:
    """Size of one encoded observation."""
    return space.n if space.kind == "discrete" else space.size
