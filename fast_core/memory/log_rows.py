"""The rows in a stream of `LogSnapshot`, to look at: no log and little memory is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import as_dtype
from fast_core.memory.log_snapshot import LogRestore
from fast_core.memory.replay_log import ReplayFields, ReplayLog

# Bits of a row, as the native core has them.
ORIGIN, TERMINATED, TRUNCATED, BEGINS = 1, 2, 4, 8
BITS = "bits"
PIECE_BYTES = 1 << 20


class Rows(NamedTuple):
    """Rows of one environment that follow each other.

    Attributes:
        env: The environment's number within the shard.
        first: Number of the first row in its log.
        rows: ``[N]``, a column per field and the bits.
    """

    env: int
    first: int
    rows: NDArray[np.void]


class _Taker:
    """What `LogRestore` takes for a log: it hands on what would be stored."""

    def __init__(self, fields: ReplayFields, envs: int, dtype: np.dtype[np.void]) -> None:
        self.fields, self.envs, self.capacity = fields, envs, PIECE_BYTES
        self.native, self.stride, self._dtype = self, dtype.itemsize, dtype
        self.taken: Rows | None = None

    def restore(self, env: int, first: int, rows: bytes | bytearray) -> None:
        self.taken = Rows(env, first, np.frombuffer(rows, self._dtype)) if rows else None


def rows_of(file: BinaryIO, fields: ReplayFields, envs: int) -> Iterator[Rows]:
    """The rows of a shard, those of each environment oldest first.

    Args:
        file: Stands at the beginning of the stream.
        fields: Columns of the log.
        envs: Environments of the shard.

    Raises:
        SegmentError: As `LogRestore` does.
    """
    taker = _Taker(fields, envs, row_dtype(fields))
    stream = LogRestore(taker, file)  # type: ignore[arg-type]
    while stream.read(PIECE_BYTES):
        rows, taker.taken = taker.taken, None
        if rows is not None:
            yield rows


def row_dtype(fields: ReplayFields) -> np.dtype[np.void]:
    """A row as it lies in a log: the columns side by side, and a byte of bits."""
    sizes = [field.row_nbytes for field in fields]
    return np.dtype(
        {
            "names": [*(field.name for field in fields), BITS],
            "formats": [*((as_dtype(field.dtype), field.shape) for field in fields), np.uint8],
            "offsets": np.cumsum([0, *sizes]).tolist(),
            "itemsize": ReplayLog.row_nbytes(fields),
        }
    )
