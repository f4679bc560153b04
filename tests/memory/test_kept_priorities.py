"""Priorities in shared memory: some changes of a dead process, made once more, are all of them."""

from __future__ import annotations

import mmap
from collections.abc import Callable

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.errors import SegmentError
from fast_core.memory import (
    KeptPriorities,
    PriorityTree,
    ReplayLog,
    ReplayReader,
    replay_fields,
)

ENVS, CAPACITY = 2, 24
FIELDS = replay_fields(SpaceSpec("box", (), "float32"), FieldSpec("action", (), "int64"))
SEED = np.random.SeedSequence(5)
LEAVES = ENVS * CAPACITY


def pages(nbytes: int) -> memoryview:
    """Zeroed memory at an aligned address."""
    return memoryview(mmap.mmap(-1, nbytes))


class Kept:
    """A tree over leaves in memory of its own, and a reader of the logs."""

    def __init__(self, log: ReplayLog, memory: memoryview | None = None) -> None:
        size = KeptPriorities.nbytes(LEAVES)
        self.memory = pages(size) if memory is None else memory
        make = KeptPriorities.create if memory is None else KeptPriorities.attach
        self.tree = PriorityTree(LEAVES, 0.6, 0.01, SEED)
        make(self.memory, LEAVES).take(self.tree)
        self.reader = ReplayReader([log], steps=2, gamma=0.9, seed=SEED)

    def leaves(self) -> tuple[np.ndarray, np.ndarray]:
        state = self.tree.state()
        return np.array(state["priorities"]), np.array(state["owners"])


def log_of(rows: int) -> ReplayLog:
    memory = pages(ReplayLog.nbytes(FIELDS, CAPACITY, ENVS))
    log = ReplayLog.create(memory, FIELDS, CAPACITY, ENVS)
    append(log, rows)
    return log


def append(log: ReplayLog, rows: int) -> None:
    for _ in range(rows):
        ended = np.array([False, log.published()[1] % 5 == 4])
        obs, never = np.zeros(ENVS, np.float32), np.zeros(ENVS, np.bool_)
        log.append(obs, np.zeros(ENVS, np.int64), obs, ended, never, obs)


def errors(kept: Kept, random: np.random.Generator) -> None:
    to = kept.reader.arrays(8)
    assert kept.reader.draw(to, kept.tree, 0.4)
    kept.reader.update(kept.tree, to.log, to.row, random.random(8, np.float32))


def some_of(
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Each leaf before, after, or at any store between: evicted, then named, then weighed.

    One that stays the same row's is weighed in one store.
    """
    nothing = np.zeros_like(before[0])
    stages = [before, (nothing, before[1]), (nothing, nothing), (nothing, after[1]), after]
    changed = (before[0] != after[0]) | (before[1] != after[1])
    stage = np.where(changed, random.integers(len(stages), size=LEAVES), 0)
    stage = np.where((before[1] == after[1]) & (stage > 0), len(stages) - 1, stage)
    leaves = np.choose(stage, [each[0] for each in stages])
    return leaves, np.choose(stage, [each[1] for each in stages]).astype(np.uint32)


def write(memory: memoryview, log: ReplayLog, leaves: tuple[np.ndarray, np.ndarray]) -> Kept:
    """Another process that finds these leaves."""
    copy = pages(len(memory))
    copy[:] = memory
    np.frombuffer(copy[64 : 64 + 8 * LEAVES], np.float64)[:] = leaves[0]
    begin = 64 + 8 * LEAVES
    np.frombuffer(copy[begin : begin + 4 * LEAVES], np.uint32)[:] = leaves[1]
    return Kept(log, copy)


def redone(change: Callable[[Kept], object], kept: Kept, log: ReplayLog) -> None:
    before, positions = kept.leaves(), kept.reader.state()
    found = kept.memory.tobytes()
    change(kept)
    after = kept.leaves()
    assert not np.array_equal(before[0], after[0])
    random = np.random.default_rng(1)
    for _ in range(200):
        successor = write(memoryview(found), log, some_of(before, after, random))
        successor.reader.load(positions)
        change(successor)
        priorities, owners = successor.leaves()
        np.testing.assert_array_equal(priorities, after[0])
        np.testing.assert_array_equal(owners, after[1])
        assert (successor.tree.total, len(successor.tree)) == (kept.tree.total, len(kept.tree))


@pytest.mark.parametrize("more", [3, 11, CAPACITY - 2])
def test_following_the_logs_once_more_comes_to_the_same_leaves(more: int) -> None:
    """Rows that came take leaves, and those lose them that were overwritten."""
    log = log_of(CAPACITY + 3)
    kept, random = Kept(log), np.random.default_rng(0)
    for _ in range(4):
        errors(kept, random)
    append(log, more)
    redone(lambda each: each.reader.sync(each.tree), kept, log)


def test_priorities_taken_once_more_are_the_same() -> None:
    log = log_of(CAPACITY)
    kept, random = Kept(log), np.random.default_rng(0)
    errors(kept, random)
    to = kept.reader.arrays(8)
    assert kept.reader.draw(to, kept.tree, 0.4)
    error = random.random(8, np.float32)
    redone(lambda each: each.reader.update(each.tree, to.log, to.row, error), kept, log)


def test_tree_in_shared_memory_is_the_tree_in_its_own() -> None:
    log = log_of(CAPACITY)
    kept, own = Kept(log), PriorityTree(LEAVES, 0.6, 0.01, SEED)
    reader = ReplayReader([log], steps=2, gamma=0.9, seed=SEED)
    for _ in range(3):
        mine, other = kept.reader.arrays(8), reader.arrays(8)
        assert kept.reader.draw(mine, kept.tree, 0.4) and reader.draw(other, own, 0.4)
        np.testing.assert_array_equal(mine.row, other.row)
        error = np.linspace(0, 1, 8, dtype=np.float32)
        kept.reader.update(kept.tree, mine.log, mine.row, error)
        reader.update(own, other.log, other.row, error)
        append(log, 4)
    np.testing.assert_array_equal(kept.leaves()[0], own.state()["priorities"])


def test_leaves_of_another_plan_are_refused() -> None:
    kept = Kept(log_of(3))
    with pytest.raises(SegmentError, match="shared priorities must have exactly"):
        KeptPriorities.attach(kept.memory, LEAVES).take(PriorityTree(LEAVES + 16, 1.0, 0.0, SEED))
