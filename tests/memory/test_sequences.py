"""Sequences drawn from replay logs, against a slow model that keeps lists."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from fast_core.algorithm import Window
from fast_core.algorithm.spec import Column, FieldSpec, SpaceSpec
from fast_core.errors import SegmentError
from fast_core.memory import PriorityTree, ReplayLog, ReplayReader, SequenceArrays
from tests.memory.conftest import Memory
from tests.memory.replay_model import GAMMA, SEED, Model, Shard, new_log, new_tree, replay_fields

CAPACITY = 40
Key = tuple[int, int]
Sequence = list[list[float]]


def new_reader(*logs: ReplayLog, window: Window, frames: int = 1) -> ReplayReader:
    ahead = window.steps + window.after
    return ReplayReader(logs, steps=ahead, gamma=GAMMA, frames=frames, window=window, seed=SEED)


def expected(model: Model, number: int, window: Window, frames: int) -> Sequence | None:
    """What a draw of this row gives, row by row; None if it must not be drawn.

    Of a row stacked observations, reward and whether it terminated or was truncated; of none NaN.
    Then the stack after the last.
    """
    rows, first = model.rows, max(0, len(model.rows) - CAPACITY)
    if model._window(number, first, window.steps + window.after, 1) is None:
        return None
    begin = number
    while begin > number - window.before and not rows[begin].begins:
        begin -= 1
        if begin < first:
            return None
    if model._stack(begin, first, frames) is None:
        return None
    found: Sequence = [[math.nan]] * (window.before - (number - begin))
    at = begin
    while at < number + window.steps + window.after:
        row = rows[at]
        truncated = row.ended and not row.terminated
        found.append([*model._stack(at, first, frames), row.reward, row.terminated, truncated])  # type: ignore[misc]
        at += 1
        if row.ended:
            break
    return [*found, model._stack(at, first, frames)]  # type: ignore[list-item]


def drawn(arrays: SequenceArrays, k: int, frames: int) -> Sequence:
    """The same of a sequence that was drawn; what is none of its rows must be zero."""
    found: Sequence = []
    obs = arrays.obs[k].reshape(len(arrays.obs[k]), frames, 2)
    assert (obs[:, :, 1] == -obs[:, :, 0]).all()
    for at, there in enumerate(arrays.mask[k]):
        values = [*obs[at, :, 0], arrays.reward[k, at], arrays.terminated[k, at]]
        truncated = arrays.truncated[k, at] and not arrays.terminated[k, at]  # may be both
        values = [float(value) for value in (*values, truncated)]
        if there:
            assert arrays.action[k, at] == obs[at, -1, 0]
            found.append(values)
            continue
        assert not any(values[frames:]) and not arrays.action[k, at]
        if not arrays.mask[k, :at].any():
            assert not any(values)
            found.append([math.nan])
    last = int(np.flatnonzero(arrays.mask[k])[-1]) + 1
    assert not obs[last + 1 :].any()
    return [*found, [float(value) for value in obs[last, :, 0]]]


def filled(memory: Memory, steps: int, seed: int = 1) -> list[Shard]:
    shards = [
        Shard(new_log(memory, CAPACITY, 2, reserve=4), number, np.random.default_rng(seed + number))
        for number in range(2)
    ]
    for step in range(steps):
        for shard in shards:
            if step == steps - 9:  # a successor of its writer knows of nothing before
                shard.log.cut(1)
                shard.models[1].begins = True
            shard.step()
    return shards


def valid(shards: list[Shard], window: Window, frames: int = 1) -> dict[Key, Sequence]:
    found = {}
    for shard in shards:
        for env, model in enumerate(shard.models):
            for number in range(max(0, len(model.rows) - CAPACITY), len(model.rows)):
                if model.rows[number].origin:
                    sequence = expected(model, number, window, frames)
                    if sequence is not None:
                        found[2 * shard.number + env, number] = sequence
    return found


@pytest.mark.parametrize("frames", [1, 3])
@pytest.mark.parametrize("steps", [8, 25, 90])
@pytest.mark.parametrize("window", [Window(1), Window(4), Window(2, 3), Window(3, 2, 2)], ids=str)
@pytest.mark.parametrize("prioritized", [False, True])
def test_drawn_sequences_are_the_valid_ones_row_by_row(
    memory: Memory, window: Window, steps: int, frames: int, prioritized: bool
) -> None:
    shards = filled(memory, steps)
    reader = new_reader(*(shard.log for shard in shards), window=window, frames=frames)
    wanted = valid(shards, window, frames)
    assert reader.valid() == len(wanted) > 3
    arrays, seen = reader.arrays(256), set()
    assert isinstance(arrays, SequenceArrays)
    tree = new_tree(reader) if prioritized else None
    for _ in range(20):
        assert reader.draw(arrays, tree, 1.0)
        for k, key in enumerate(zip(arrays.log.tolist(), arrays.row.tolist(), strict=True)):
            if key not in seen:
                np.testing.assert_equal(drawn(arrays, k, frames), wanted[key])
            seen.add(key)
    assert seen == wanted.keys()
    assert (arrays.weight == 1).all()


def chi_squared(counts: Counter[Key], share: dict[Key, float]) -> float:
    """How far the counts are from the shares, in deviations of what chance would give."""
    total, freedom = sum(counts.values()), len(share) - 1
    chi = sum((counts[key] - total * p) ** 2 / (total * p) for key, p in share.items())
    return (chi - freedom) / math.sqrt(2 * freedom)


def count(reader: ReplayReader, tree: PriorityTree | None = None) -> Counter[Key]:
    arrays, counts = reader.arrays(1000), Counter[Key]()
    for _ in range(60):
        assert reader.draw(arrays, tree, 0.0)
        counts.update(zip(arrays.log.tolist(), arrays.row.tolist(), strict=True))
    return counts


def test_each_valid_sequence_has_the_same_probability(memory: Memory) -> None:
    shards, window = filled(memory, 90), Window(3, 2, 1)
    counts = count(new_reader(*(shard.log for shard in shards), window=window))
    wanted = valid(shards, window)
    assert counts.keys() == wanted.keys()
    assert abs(chi_squared(counts, dict.fromkeys(wanted, 1 / len(wanted)))) < 4
    # Had rows that begin nothing been drawn as often, this would tell.
    skewed = {key: 1.2 if key[1] % 2 else 0.8 for key in wanted}
    total = sum(skewed.values())
    assert chi_squared(counts, {key: value / total for key, value in skewed.items()}) > 20


def test_sequences_are_drawn_by_the_priority_of_the_row_that_was_learned_from_first(
    memory: Memory,
) -> None:
    shards, window = filled(memory, 90), Window(3, 2, 1)
    reader = new_reader(*(shard.log for shard in shards), window=window)
    tree, wanted = new_tree(reader), valid(shards, window)
    reader.sync(tree)
    keys = sorted(wanted)
    error = 1 + np.arange(len(keys), dtype=np.float32)
    log, row = (np.array(each) for each in zip(*keys, strict=True))
    assert reader.update(tree, log.astype(np.int32), row, error) == len(keys)
    share = dict(zip(keys, (error / error.sum()).tolist(), strict=True))
    assert abs(chi_squared(count(reader, tree), share)) < 4


def test_probabilities_of_a_small_replay_by_hand(memory: Memory) -> None:
    """Two logs of 12 rows that were overwritten, a row before, two from the drawn one on."""
    window = Window(2, 1)
    logs = [new_log(memory, 12, 1, reserve=0) for _ in range(2)]
    for log, last in zip(logs, (4, 6), strict=True):  # steps of an episode
        for step in range(15):
            ended = np.array([step % last == last - 1])
            obs = np.full((1, 2), float(step))
            zero = np.zeros(1, np.float32)
            log.append(obs, np.zeros(1, np.int64), zero, ended & False, ended, obs)
    # Rows of the first: 0-3 F 5-8 F 10-13 F 15-17, 18 in all, so 6 is the oldest: it goes on from
    # one that is gone, and 17 has no observation after it, nor has 16 two rows.
    # Of the second: 0-5 F 7-12 F 14-16, 17 in all, so 5 is the oldest; 15 has one row, and 16 none.
    valid = {0: [7, 8, 10, 11, 12, 13, 15], 1: [7, 8, 9, 10, 11, 12, 14]}
    share = {(log, row): 1 / 14 for log, rows in valid.items() for row in rows}
    reader = new_reader(*logs, window=window)
    counts = count(reader)
    assert counts.keys() == share.keys()
    assert abs(chi_squared(counts, share)) < 4
    tree = new_tree(reader)
    reader.sync(tree)
    named = np.array([0, 1], np.int32), np.array([8, 14], np.int64)  # ends an episode; begins one
    assert reader.update(tree, *named, np.array([3.0, 4.0], np.float32)) == 2
    share = dict.fromkeys(share, 1 / 19) | {(0, 8): 3 / 19, (1, 14): 4 / 19}
    assert abs(chi_squared(count(reader, tree), share)) < 4


def test_further_columns_are_of_each_row_or_of_the_first_that_is_there(memory: Memory) -> None:
    space, action = SpaceSpec("box", (2,), "float64"), FieldSpec("action", (), "int64")
    tag, entered = Column("tag", (3,), "int16"), Column("entered", (), "int64", fold="entry")
    log = new_log(memory, 40, 1, replay_fields(space, action, (tag, entered)))
    never, zero = np.zeros(1, bool), np.zeros(1, np.float32)
    for step in range(20):
        ended = np.array([step % 9 == 8])
        extra = {"tag": np.full((1, 3), step, np.int16), "entered": np.array([step])}
        obs = np.full((1, 2), step, float)
        log.append(obs, np.full(1, step), zero, never, ended, obs, extra=extra)
    reader = new_reader(log, window=Window(3, 2))
    arrays = reader.arrays(200)
    assert reader.draw(arrays)
    assert arrays.extra["tag"].shape == (200, 5, 3)
    np.testing.assert_array_equal(
        arrays.extra["tag"], np.repeat(arrays.action[:, :, None], 3, axis=2)
    )
    first = arrays.mask.argmax(axis=1)
    assert set(first.tolist()) == {0, 1, 2}
    np.testing.assert_array_equal(
        arrays.extra["entered"], arrays.action[np.arange(200), first], strict=True
    )


def test_log_that_holds_no_sequence_is_refused(memory: Memory) -> None:
    log = new_log(memory, 10, 1)
    with pytest.raises(SegmentError, match="10 rows hold no window of 6 steps, 4 rows before them"):
        new_reader(log, window=Window(5, 4, 1))
