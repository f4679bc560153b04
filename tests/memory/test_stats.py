from __future__ import annotations

from fast_core.memory import STATS_WORDS, StatsColumn, StatsRow, Trace
from tests.memory.conftest import Memory


def test_each_column_arrives_under_its_name(memory: Memory) -> None:
    region = memory(Trace.nbytes(STATS_WORDS))
    row = StatsRow(Trace.create(region, STATS_WORDS).words)
    for column in StatsColumn:
        row.words[column] = 1000 + column
    seen = StatsRow(Trace.attach(region, STATS_WORDS).words).snapshot()
    for column in StatsColumn:
        assert getattr(seen, column.name.lower()) == 1000 + column


def test_create_clears_what_was_there_and_nothing_beyond(memory: Memory) -> None:
    region = memory(Trace.nbytes(3))
    region[:] = b"\xff" * len(region)
    assert Trace.create(region, 2).words.tolist() == [0, 0]
    assert bytes(region[-8:]) == b"\xff" * 8
