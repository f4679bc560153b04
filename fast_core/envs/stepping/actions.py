"""The actions of open episodes, kept so that a resumed run can take them again."""

from __future__ import annotations

import numpy as np

from fast_core.algorithm import Array
from fast_core.algorithm.spec import SpaceSpec

_CHUNK = 256


class ActionLog:
    """Every environment's actions since its episode began.

    Kept by batch step in chunks of 256 rows ``[B, ...]``: one copy for all environments at each
    step. Chunks that end before the oldest open episode are dropped when a new one is begun, so
    the log holds the longest episode of late and fewer than 512 rows beside it. Without a time
    limit an episode, and so its log, can grow as long as the environment lets it.
    """

    def __init__(self, envs: int, space: SpaceSpec) -> None:
        self._shape = (_CHUNK, envs, *space.shape)
        self._dtype = np.dtype(space.dtype)
        self.clear()

    def clear(self) -> None:
        """Forget everything; the next row is that of batch step 0."""
        self._chunks: list[Array] = []
        self._first = 0
        self._used = _CHUNK

    def append(self, action: Array, oldest: int) -> None:
        """Keep a copy of ``action`` ``[B, ...]``.

        Args:
            action: Actions of the next batch step.
            oldest: Batch step at which the oldest open episode began.
        """
        if self._used == _CHUNK:
            self._drop_before(oldest)
            self._chunks.append(np.empty(self._shape, self._dtype))
            self._used = 0
        self._chunks[-1][self._used] = action
        self._used += 1

    def _drop_before(self, oldest: int) -> None:
        done = min((oldest - self._first) // _CHUNK, len(self._chunks))
        del self._chunks[:done]
        self._first += done * _CHUNK

    def since(self, env: int, step: int) -> Array:
        """Actions ``[n, ...]`` of ``env`` from batch step ``step`` on."""
        kept = [chunk[:, env] for chunk in self._chunks[:-1]]
        kept += [chunk[: self._used, env] for chunk in self._chunks[-1:]]
        if not kept:
            return np.empty((0, *self._shape[2:]), self._dtype)
        return np.concatenate(kept)[step - self._first :]

    @property
    def rows(self) -> int:
        """Rows that memory is held for."""
        return len(self._chunks) * _CHUNK
