"""What is said of rows later than they were written."""

from __future__ import annotations

import numpy as np
import pytest

from fast_core.algorithm.spec import Column
from fast_core.errors import SegmentError
from fast_core.memory import SideColumns
from tests.memory.conftest import Memory

SAID = (Column("said", (2,), "float32", writer="learner"),)


def new(memory: Memory, columns: tuple[Column, ...] = SAID, rows: int = 10) -> SideColumns:
    return SideColumns.create(memory(SideColumns.nbytes(columns, 3, rows)), columns, 3, rows)


def write(side: SideColumns, log: list[int], row: list[int], version: int) -> None:
    said = np.arange(2 * len(log), dtype=np.float32).reshape(-1, 2) + 100 * version
    side.write(np.array(log, np.int32), np.array(row), version, {"said": said})


def read(side: SideColumns, log: int, row: int) -> tuple[int, list[float]]:
    version, said = np.full(1, 99), np.full((1, 2), 99, np.float32)
    side.read(np.array([log], np.int32), np.array([row]), version, {"said": said})
    return int(version[0]), said[0].tolist()


def test_each_row_has_what_was_said_of_it_last(memory: Memory) -> None:
    side = new(memory)
    assert read(side, 0, 0) == (-1, [0, 0])
    write(side, [0, 2, 0], [0, 0, 4], version=1)
    write(side, [0, 0], [4, 4], version=2)
    assert read(side, 0, 0) == (1, [100, 101])
    assert read(side, 2, 0) == (1, [102, 103])
    assert read(side, 0, 4) == (2, [202, 203])
    assert read(side, 1, 0) == (-1, [0, 0])


def test_rows_that_share_a_place_are_told_apart_and_the_newer_one_keeps_it(memory: Memory) -> None:
    """The log went on while the older one was learned from."""
    side = new(memory)
    write(side, [1], [3], version=5)
    assert read(side, 1, 13) == (-1, [0, 0])
    write(side, [1], [13], version=6)
    write(side, [1, 1], [3, 4], version=7)
    assert read(side, 1, 3) == (-1, [0, 0])
    assert read(side, 1, 13) == (6, [600, 601])
    assert read(side, 1, 4) == (7, [702, 703])


def test_copies_are_loaded_as_bytes_and_others_refused(memory: Memory) -> None:
    side, other = new(memory), new(memory)
    write(side, [1], [3], version=5)
    other.load({name: array.view(np.uint8).reshape(-1) for name, array in side.arrays.items()})
    assert read(other, 1, 3) == (5, [500, 501])
    with pytest.raises(SegmentError, match=r"of 'owner'; got 240 bytes. Resume with"):
        new(memory, rows=11).load(side.arrays)
    with pytest.raises(SegmentError, match="of 'told'; got nothing"):
        new(memory, (Column("told", (), "float32"),)).load(side.arrays)
