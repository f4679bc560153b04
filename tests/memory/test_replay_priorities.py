"""Draws from replay logs by priority, and what a reader says of its tree."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.memory.replay_model import (
    Memory,
    Shard,
    all_steps,
    highest,
    new_log,
    new_reader,
    new_tree,
    windows_of,
)


def test_priorities_follow_updates_and_refuse_rows_that_are_gone(memory: Memory) -> None:
    log = new_log(memory, 8, 1)
    reader = new_reader(log)
    tree, arrays = new_tree(reader), reader.arrays(400)
    all_steps(log, range(9))
    assert reader.draw(arrays, tree)
    row = np.array([1, 2, 6], np.int64)
    env, error = np.zeros(3, np.int32), np.array([1, 2, 5], np.float32)
    assert reader.update(tree, env, row, error) == 3
    assert reader.draw(arrays, tree, 1.0)
    total = 1 + 2 + 5 + 4  # the other four still have 1
    assert tree.total == total
    share = {1: 1, 2: 2, 6: 5}
    least = min(share.get(r, 1) for r in arrays.row.tolist())
    assert arrays.weight.tolist() == pytest.approx(
        [least / share.get(r, 1) for r in arrays.row.tolist()]
    )
    all_steps(log, range(9, 12))
    reader.sync(tree)
    assert reader.update(tree, env, row, error) == 1
    assert tree.refused() == (0, 2)
    unknown = np.array([-1, 1, 0], np.int32)
    assert reader.update(tree, unknown, np.array([5, 5, -3]), error) == 0
    assert reader.update(tree, env, np.array([5, 4, 7]), np.float32([3, math.nan, 1])) == 2
    # New rows had the greatest priority of those that lived then: 5, of row 6.
    assert {r.row: r.priority for r in highest(reader, tree, 9)} == {
        **{4: 1, 5: 3, 6: 5, 7: 1},
        **{8: 5, 9: 5, 10: 5},
    }
    reader.update(tree, np.zeros(4, np.int32), np.arange(7, 11), np.float32([1, 2, 3, 2]))
    all_steps(log, range(12, 15))
    reader.sync(tree)  # row 6 goes, and the outlier with it, as 11 and 12 come
    assert {r.row: r.priority for r in highest(reader, tree, 9)} == {
        **{7: 1, 8: 2, 9: 3, 10: 2},
        **{11: 3, 12: 3, 13: 3},
    }


@pytest.mark.parametrize(
    ("alpha", "beta", "probability", "weight"),
    [
        (1.0, 1.0, [0.1, 0.2, 0.3, 0.4], [1, 0.5, 1 / 3, 0.25]),
        (0.6, 0.4, [0.14823, 0.22467, 0.28655, 0.34054], [1, 0.84675, 0.76823, 0.71698]),
    ],
)
def test_weights_of_drawn_rows_are_those_of_the_paper(
    memory: Memory, alpha: float, beta: float, probability: list[float], weight: list[float]
) -> None:
    """RB-06, RB-12: and what is given to an update is left as it was."""
    log = new_log(memory, 8, 1)
    all_steps(log, range(5))
    reader = new_reader(log)
    tree, arrays = new_tree(reader, alpha), reader.arrays(100_000)
    reader.sync(tree)
    given = np.zeros(4, np.int32), np.arange(4), np.float32([1, 2, 3, 4])
    kept = [array.copy() for array in given]
    assert reader.update(tree, *given) == 4
    assert all((left == right).all() for left, right in zip(given, kept, strict=True))
    assert reader.draw(arrays, tree, beta)
    share = np.bincount(arrays.row, minlength=4) / 100_000
    assert share.tolist() == pytest.approx(probability, abs=0.01)
    assert arrays.weight.tolist() == pytest.approx(np.array(weight)[arrays.row].tolist(), abs=5e-6)


def test_highest_rows_are_those_of_the_tree(memory: Memory) -> None:
    """RB-15."""
    rng = np.random.default_rng(5)
    shards = [Shard(new_log(memory, 30, 2), k, rng) for k in range(2)]
    for _ in range(70):
        for shard in shards:
            shard.step()
    reader = new_reader(*(shard.log for shard in shards))
    tree, arrays = new_tree(reader, alpha=0.5), reader.arrays(64)
    assert reader.draw(arrays, tree)
    errors = rng.random(64).astype(np.float32) + 2
    reader.update(tree, arrays.log, arrays.row, errors)
    last = {}
    for log, row, error in zip(arrays.log, arrays.row, errors, strict=True):
        last[int(log), int(row)] = float(error) ** 0.5
    best = sorted(last, key=lambda place: -last[place])[:10]
    found = highest(reader, tree, 10)
    assert [(r.log, r.row) for r in found] == best
    assert [r.priority for r in found] == pytest.approx([last[place] for place in best])
    for _ in range(20):  # the writers go on, the tree has not followed them yet
        for shard in shards:
            shard.step()
    assert [(r.log, r.row) for r in highest(reader, tree, 10)] == best


@pytest.mark.parametrize("written", [40, 400])
def test_tree_that_fell_behind_by_whole_logs_catches_up(memory: Memory, written: int) -> None:
    rng = np.random.default_rng(2)
    shard = Shard(new_log(memory, 16, 1), 0, rng)
    reader = new_reader(shard.log, steps=2, frames=2)
    tree = new_tree(reader)
    for _ in range(10):
        shard.step()
    reader.sync(tree)
    for _ in range(written):
        shard.step()
    reader.sync(tree)
    assert len(tree) == reader.valid() == len(windows_of([shard], 2, 2))


def test_tree_that_is_far_behind_evicts_each_leaf_once(memory: Memory) -> None:
    """One step for each row that has gone since would take for ever."""
    log, newest = new_log(memory, 8, 1), 1 << 62
    reader = new_reader(log)
    tree = new_tree(reader)
    all_steps(log, range(9))
    reader.sync(tree)
    assert len(tree) == 7
    log.native.restore(0, newest, b"")
    reader.load(reader.state() | {"positions": np.array([[newest, 1]], np.uint64)})
    reader.sync(tree)
    assert len(tree) == 0
    positions = np.empty((1, 2), np.uint64)
    reader.positions(positions)
    assert positions.tolist() == [[newest, newest]]
