from __future__ import annotations

from collections.abc import Callable

import pytest

from fast_core.errors import SegmentError
from fast_core.memory import StatsBoard, StatsColumn

Memory = Callable[[int], memoryview]


def test_each_column_arrives_under_its_name(memory: Memory) -> None:
    region = memory(StatsBoard.nbytes(3))
    writer, reader = StatsBoard.create(region, 3), StatsBoard.attach(region, 3)
    row = writer.row(1)
    for column in StatsColumn:
        row.words[column] = 1000 + column
    row.floats[StatsColumn.EPISODE_RETURN] = -2.5
    seen = reader.snapshot()[1]
    for column in StatsColumn:
        expected = -2.5 if column is StatsColumn.EPISODE_RETURN else 1000 + column
        assert getattr(seen, column.name.lower()) == expected


def test_rows_do_not_touch_each_other(memory: Memory) -> None:
    board = StatsBoard.create(memory(StatsBoard.nbytes(3)), 3)
    before = board.snapshot()
    for column in range(len(StatsColumn)):
        board.row(1).words[column] = -1
    after = board.snapshot()
    assert (after[0], after[2]) == (before[0], before[2])
    assert after[1].env_steps == -1
    assert len(board) == 3


def test_create_clears_what_was_there(memory: Memory) -> None:
    region = memory(StatsBoard.nbytes(2))
    region[:] = b"\xff" * len(region)
    assert StatsBoard.create(region, 2).row(1).words[StatsColumn.UPDATES] == 0


def test_attach_refuses_another_number_of_rows(memory: Memory) -> None:
    region = memory(StatsBoard.nbytes(3))
    StatsBoard.create(region, 3)
    with pytest.raises(SegmentError, match="another plan than 2"):
        StatsBoard.attach(region, 2)
