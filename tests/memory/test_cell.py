"""Requests and replies: published whole, told apart by number and incarnation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import Cell
from fast_core.spec import FieldSpec

FIELDS = (
    FieldSpec("obs", (3,), "float32", "rollout"),
    FieldSpec("flag", (), "bool", "rollout"),
    FieldSpec("record", (), "[('a', 'int8', ()), ('b', 'float64', (2,))]", "rollout"),
)
ROWS = 5


def memory() -> memoryview:
    """Zeroed, aligned memory of the right size."""
    room = np.zeros(Cell.nbytes(FIELDS, ROWS) + 64, np.uint8)
    first = -room.ctypes.data % 64
    return memoryview(room)[first : first + Cell.nbytes(FIELDS, ROWS)]


def test_rows_and_words_are_seen_by_who_attaches() -> None:
    region = memory()
    ours = Cell.create(region, FIELDS, ROWS)
    theirs = Cell.attach(region, FIELDS, ROWS)
    assert (theirs.number(), theirs.rows) == (0, ROWS)
    ours["obs"][...] = 1.5
    ours["flag"][2] = True
    ours["record"]["b"][4] = 7.0
    ours.publish(1, incarnation=2, version=3, sender=4)
    assert theirs.number() == 1
    assert (theirs.incarnation, theirs.version, theirs.sender) == (2, 3, 4)
    assert (theirs["obs"] == 1.5).all()
    assert theirs["flag"].tolist() == [False, False, True, False, False]
    assert theirs["record"]["b"][4].tolist() == [7.0, 7.0]
    assert list(theirs) == ["obs", "flag", "record"]
    assert len(theirs) == 3


def test_fields_do_not_overlap() -> None:
    cell = Cell.create(memory(), FIELDS, ROWS)
    for name in cell:
        cell[name][...] = np.zeros((), cell[name].dtype)
    cell["flag"][...] = True
    assert not cell["obs"].any()
    assert not cell["record"]["a"].any()


def test_number_is_stored_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer killed between two stores has said nothing: the old number still stands."""
    cell = Cell.create(memory(), FIELDS, ROWS)
    cell.publish(1, incarnation=1, version=10, sender=0)
    words, before_each = cell._words, []

    class Watched:
        def store(self, index: int, value: int) -> None:
            before_each.append((cell.number(), cell.incarnation, cell.version, cell.sender))
            words.store(index, value)

        def load(self, index: int) -> int:
            return int(words.load(index))

    watched: Any = Watched()
    monkeypatch.setattr(cell, "_words", watched)
    cell.publish(2, incarnation=2, version=20, sender=3)
    assert [number for number, *_ in before_each] == [1, 1, 1, 1]
    assert before_each[-1] == (1, 2, 20, 3), "all the rest was there before the number"
    assert cell.number() == 2


def test_cell_of_other_fields_or_rows_is_refused() -> None:
    region = memory()
    Cell.create(region, FIELDS, ROWS)
    with pytest.raises(SegmentError, match="created by another plan"):
        Cell.attach(region, FIELDS[:2], ROWS)
    with pytest.raises(SegmentError, match="created by another plan"):
        Cell.attach(region, FIELDS, ROWS - 1)


def test_cell_without_rows_or_room_is_refused() -> None:
    with pytest.raises(SegmentError, match="at least one row; got 0"):
        Cell.create(memory(), FIELDS, 0)
    with pytest.raises(SegmentError, match="cell needs"):
        Cell.create(memory()[:-64], FIELDS, ROWS)
