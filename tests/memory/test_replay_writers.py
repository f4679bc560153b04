"""Replay logs that change their writer: what joins, what is marked, what a checkpoint brings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import LogSnapshot, PriorityTree, ReplayArrays, ReplayLog, ReplayReader
from tests.memory.replay_model import (
    FIELDS,
    Memory,
    Shard,
    all_steps,
    new_log,
    new_reader,
    new_tree,
    one_step,
    restored,
    streamed,
)


def followed(memory: Memory, steps: int, *, continues: bool) -> tuple[ReplayLog, ReplayLog]:
    """A log with ``steps`` rows, numbered from 0, and its writer's successor."""
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    log = ReplayLog.create(region, FIELDS, 100, 1)
    all_steps(log, range(steps))
    return log, ReplayLog.attach(region, FIELDS, 100, 1, continues=continues)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_window_or_stack_spans_two_writers(memory: Memory, steps: int) -> None:
    """A writer that was replaced left an episode open; its successor begins anew."""
    log, successor = followed(memory, 10, continues=False)
    all_steps(successor, range(1000, 1010))
    reader = new_reader(log, steps=steps, frames=4)
    arrays = reader.arrays(2000)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {*range(10 - steps), *range(10, 20 - steps)}
    old = arrays.obs < 500
    assert (old.all(axis=(1, 2)) | ~old.any(axis=(1, 2))).all()
    assert (arrays.next_obs[:, -1, 0] == arrays.obs[:, -1, 0] + steps).all()
    assert ((arrays.next_obs < 500) == old).all()


def ending_step(log: ReplayLog, obs: float) -> None:
    one_step(log, obs, end=True)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_windows_and_stacks_join_where_a_writer_continues(memory: Memory, steps: int) -> None:
    """An exact resume: as if one writer had written all of it."""
    log, successor = followed(memory, 10, continues=True)
    all_steps(successor, range(10, 20))
    reader = new_reader(log, steps=steps, frames=4)
    arrays = reader.arrays(2000)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == set(range(20 - steps))
    expected = np.maximum(arrays.row[:, None] + np.arange(-3, 1), 0)
    assert (arrays.obs[..., 0] == expected).all()
    assert (arrays.next_obs[:, -1, 0] == arrays.row + steps).all()


@pytest.mark.parametrize("last", [ReplayLog.cut, ending_step], ids=["cut", "end"])
def test_writer_that_continues_marks_what_its_predecessor_would_have(
    memory: Memory, last: Callable[..., None]
) -> None:
    log, successor = followed(memory, 1, continues=True)
    last(log, 0)
    rows = log.published()[0]
    all_steps(successor, range(1, 5))
    reader = new_reader(log, frames=3)
    arrays = reader.arrays(200)
    assert reader.draw(arrays)
    after = arrays.row >= rows
    assert set(arrays.row[after].tolist()) == set(range(rows, rows + 3))
    assert (arrays.obs[after][..., 0] >= 1).all()


def test_stacks_that_reach_before_a_log_that_was_not_restored_are_not_drawn(
    memory: Memory,
) -> None:
    """Its writer continues in the middle of an episode whose first rows nobody has."""
    _, log = followed(memory, 0, continues=True)
    all_steps(log, range(1, 6))
    reader = new_reader(log, frames=3)
    arrays = reader.arrays(200)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {2, 3}


def test_writer_continues_behind_rows_restored_after_it_attached(memory: Memory) -> None:
    log = new_log(memory, 100, 1)
    all_steps(log, range(10))
    copy, writer = followed(memory, 0, continues=True)
    restored(copy, streamed(LogSnapshot(log), 200))
    all_steps(writer, range(10, 15))
    assert new_reader(copy, steps=2).valid() == 13


def test_attaching_marks_nothing(memory: Memory) -> None:
    """Readers and idle successors leave the writer's rows joined."""
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    log = ReplayLog.create(region, FIELDS, 100, 1)
    for step in range(20):
        one_step(log, step)
        before = bytes(region)
        for continues in (False, True):
            new_reader(ReplayLog.attach(region, FIELDS, 100, 1, continues)).valid()
        assert bytes(region) == before
    assert new_reader(log, steps=3).valid() == 17


def test_restored_reader_and_tree_go_on_exactly(memory: Memory) -> None:
    rng = np.random.default_rng(9)
    shard = Shard(new_log(memory, 30, 2), 0, rng)

    def new() -> tuple[ReplayReader, PriorityTree, ReplayArrays]:
        reader = new_reader(shard.log, steps=2)
        return reader, new_tree(reader), reader.arrays(32)

    reader, tree, arrays = new()
    for _ in range(50):
        shard.step()
    reader.draw(arrays, tree)
    reader.update(tree, arrays.log, arrays.row, rng.random(32).astype(np.float32))
    again, again_tree, again_arrays = new()
    again_tree.load(tree.state())
    again.load(reader.state())
    for _ in range(5):
        shard.step()
        for one in (True, False):
            assert reader.draw(arrays, tree if one else None, 0.4)
            assert again.draw(again_arrays, again_tree if one else None, 0.4)
            for left, right in zip(arrays.in_order, again_arrays.in_order, strict=True):
                assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("written", [0, 5, 50])
def test_saved_logs_and_their_reader_go_on_exactly(memory: Memory, written: int) -> None:
    rng = np.random.default_rng(9)
    shard = Shard(new_log(memory, 30, 2), 0, rng)
    for _ in range(written):
        shard.step()
    reader = new_reader(shard.log, steps=2, frames=3)
    tree, arrays = new_tree(reader), reader.arrays(32)
    reader.draw(arrays, tree)
    copy = restored(new_log(memory, 30, 2, reserve=0), streamed(LogSnapshot(shard.log), 200))
    again = new_reader(copy, steps=2, frames=3)
    again_tree, again_arrays = new_tree(again), again.arrays(32)
    again_tree.load(tree.state())
    again.load(reader.state())
    assert copy.published() == shard.log.published()
    for prioritized in (True, False):
        found = reader.draw(arrays, tree if prioritized else None, 0.4)
        assert again.draw(again_arrays, again_tree if prioritized else None, 0.4) == found
        for left, right in zip(arrays.in_order, again_arrays.in_order, strict=True):
            assert left.tobytes() == right.tobytes() or not found


def test_log_restored_in_part_has_no_rows_before_it(memory: Memory) -> None:
    """Into a smaller one: the newest rows stay."""
    log = new_log(memory, 30, 1)
    all_steps(log, range(50))
    copy = restored(new_log(memory, 10, 1, reserve=0), streamed(LogSnapshot(log), 200))
    reader = new_reader(copy, frames=4)
    tree, arrays = new_tree(reader), reader.arrays(500)
    assert reader.draw(arrays, tree) and reader.draw(arrays)
    assert set(arrays.row.tolist()) == set(range(43, 49)) and len(tree) == reader.valid()
    all_steps(copy, range(1000, 1003))
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {*range(46, 49), 50, 51}
    assert (arrays.next_obs[:, -1, 0] == arrays.obs[:, -1, 0] + 1).all()


def test_reader_state_of_fuller_logs_is_refused(memory: Memory) -> None:
    log, empty = new_log(memory, 8, 1), new_log(memory, 8, 1)
    all_steps(log, range(5))
    reader = new_reader(log)
    reader.sync(new_tree(reader))
    with pytest.raises(SegmentError, match="load the logs first"):
        new_reader(empty).load(reader.state())
