"""Columns that are written later than their rows, and by another: what a learner says of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import Column
from fast_core.errors import SegmentError
from fast_core.memory.header import (
    HEADER_BYTES,
    Array,
    Declared,
    Planned,
    columns_at,
    columns_end,
)

NEVER = -1  # version of a row that nothing was written of


class SideColumns(Planned):
    """A place for each row of the logs of a run that can be drawn: columns, and their version.

    A row has the place of its leaf in a `PriorityTree`, and goes with it when the log goes on.

    Attributes:
        names: Of the columns.

    Concurrency: the replay node alone reads and writes, at the same points as priorities. What it
    was writing when it died its successor writes once more, in the same order.
    """

    what = "side columns"

    def __init__(self, memory: memoryview, columns: tuple[Column, ...], logs: int, rows: int):
        """Use ``create``, in memory that is zero, or ``attach``."""
        self.rows = rows
        self.arrays = columns_at(memory, HEADER_BYTES, _stored(columns, logs * rows))
        self.names = [column.name for column in columns]

    @staticmethod
    def nbytes(columns: tuple[Column, ...], logs: int, rows: int) -> int:
        """Bytes of the region for ``rows`` rows of each of so many logs."""
        return columns_end(HEADER_BYTES, _stored(columns, logs * rows))

    @classmethod
    def plan(cls, columns: tuple[Column, ...], logs: int, rows: int) -> object:
        """The columns, and how many places there are."""
        return ([(each.name, each.shape, each.dtype) for each in columns], logs, rows)

    def write(
        self,
        log: NDArray[np.int32],
        row: NDArray[np.int64],
        version: int,
        values: Mapping[str, Array],
    ) -> None:
        """Write the columns of these rows, ``[N]`` and ``[N, ...]``; of one twice, the last."""
        place, owner = self._places(log, row), self.arrays["owner"]
        known = owner[place] <= row + 1  # else the log has gone on meanwhile
        place = place[known]
        for name in self.names:
            self.arrays[name][place] = values[name][known]
        self.arrays["version"][place] = version
        owner[place] = row[known] + 1

    def read(
        self,
        log: NDArray[np.int32],
        row: NDArray[np.int64],
        version: NDArray[np.int64],
        values: Mapping[str, Array],
    ) -> None:
        """Fill the arrays for these rows: zeros, and the version `NEVER`, where nothing is."""
        place = self._places(log, row)
        known = self.arrays["owner"][place] == row + 1
        version[...] = np.where(known, self.arrays["version"][place], NEVER)
        for name in self.names:
            values[name][...] = self.arrays[name][place]
            values[name][~known] = 0

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Continue from copies of ``arrays``, as bytes or as they are.

        Raises:
            SegmentError: They are of other columns or of another number of rows.
        """
        for name, array in self.arrays.items():
            if name not in arrays or arrays[name].nbytes != array.nbytes:
                got = f"{arrays[name].nbytes} bytes" if name in arrays else "nothing"
                raise SegmentError(
                    f"the saved columns of the learner must have {array.nbytes} bytes of {name!r}; "
                    f"got {got}. Resume with the algorithm and replay.capacity of the saved run"
                )
            array[...] = arrays[name].view(array.dtype).reshape(array.shape)

    def _places(self, log: NDArray[np.int32], row: NDArray[np.int64]) -> NDArray[np.int64]:
        return log.astype(np.int64) * self.rows + row % self.rows


def _stored(columns: tuple[Column, ...], places: int) -> Declared:
    """What a place has: one more than the number of its row, 0 for none, the version, and these."""
    declared = [(each.name, each.dtype, (places, *each.shape)) for each in columns]
    return [("owner", "int64", (places,)), ("version", "int64", (places,)), *declared]
