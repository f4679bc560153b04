"""What is said in a mailbox: published whole, and typed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec
from fast_core.errors import SegmentError
from fast_core.memory import Mailbox
from fast_core.run.mail import Reply

FIELDS = (
    FieldSpec("obs", (3,), "float32", "rollout"),
    FieldSpec("flag", (), "bool", "rollout"),
    FieldSpec("record", (), "[('a', 'int8', ()), ('b', 'float64', (2,))]", "rollout"),
)
ROWS = 5


class Said(NamedTuple):
    incarnation: int
    flag: bool


def memory() -> memoryview:
    """Zeroed, aligned memory of the right size."""
    room = np.zeros(Mailbox.nbytes(Said, FIELDS, ROWS) + 64, np.uint8)
    first = -room.ctypes.data % 64
    return memoryview(room)[first : first + Mailbox.nbytes(Said, FIELDS, ROWS)]


def test_rows_and_words_are_seen_by_who_attaches() -> None:
    region = memory()
    ours = Mailbox.create(region, Said, FIELDS, ROWS)
    theirs = Mailbox.attach(region, Said, FIELDS, ROWS)
    assert (theirs.number(), theirs.rows) == (0, ROWS)
    ours["obs"][...] = 1.5
    ours["flag"][2] = True
    ours["record"]["b"][4] = 7.0
    ours.publish(1, Said(2, True))
    assert theirs.number() == 1
    assert theirs.words == Said(2, True)
    assert type(theirs.words.flag) is bool
    assert (theirs["obs"] == 1.5).all()
    assert theirs["flag"].tolist() == [False, False, True, False, False]
    assert theirs["record"]["b"][4].tolist() == [7.0, 7.0]
    assert list(theirs) == ["obs", "flag", "record"]
    assert len(theirs) == 3


def test_mailbox_of_other_words_is_refused() -> None:
    region = memory()
    Mailbox.create(region, Said, FIELDS, ROWS)
    with pytest.raises(SegmentError, match="created by another plan"):
        Mailbox.attach(region, Reply, FIELDS, ROWS)


def test_mailbox_without_rows_is_refused() -> None:
    with pytest.raises(SegmentError, match="at least one row; got 0"):
        Mailbox.create(memory(), Said, FIELDS, 0)
