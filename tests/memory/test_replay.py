"""Draws from replay logs against a slow model that keeps lists."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from fast_core.algorithm.spec import Column, FieldSpec, SpaceSpec
from fast_core.errors import SegmentError
from fast_core.memory import (
    Mailbox,
    PriorityTree,
    ReplayArrays,
    ReplayReader,
    replay_fields,
)
from fast_core.run.mail import Drawn
from tests.memory.replay_model import (
    GAMMA,
    SEED,
    Memory,
    Shard,
    all_steps,
    drawn_windows,
    new_log,
    new_reader,
    new_tree,
    one_step,
    windows_of,
)


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize(
    ("steps", "frames", "reserve"), [(1, 1, 0), (3, 1, 4), (1, 4, 0), (5, 3, 17)]
)
def test_draws_are_the_valid_windows_of_the_model(
    memory: Memory, steps: int, frames: int, reserve: int, prioritized: bool
) -> None:
    """Rows of the reserve are not among them."""
    rng = np.random.default_rng(steps * 10 + frames)
    shards = [Shard(new_log(memory, 13, 2, reserve=reserve), k, rng) for k in range(3)]
    reader = new_reader(*(shard.log for shard in shards), steps=steps, frames=frames)
    tree = new_tree(reader) if prioritized else None
    arrays = reader.arrays(40)
    for turn in range(150):
        for shard in shards:
            shard.step()
            if rng.random() < 0.02:
                env = int(rng.integers(2))
                shard.log.cut(env)
                shard.models[env].begins = True
        expected = windows_of(shards, steps, frames)
        assert reader.valid() == len(expected)
        if not reader.draw(arrays, tree):
            assert not expected, turn
            continue
        for place, window in drawn_windows(arrays, frames):
            assert window == expected[place]
        if tree is not None:
            assert len(tree) == len(expected)
            assert set(tree.state()["priorities"].tolist()) <= {0.0, 1.0}
            assert (arrays.weight == 1).all()


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("ending", [0.1, 0.6])
def test_every_valid_window_is_drawn_as_often(
    memory: Memory, prioritized: bool, ending: float
) -> None:
    """Logs of different fill, so that a choice of the log first would show.

    Six, so that a search that halves them has odd rests.
    """
    rng = np.random.default_rng(1)
    shards = [Shard(new_log(memory, 40, 2), k, rng, ending) for k in range(3)]
    for shard, steps in zip(shards, (60, 9, 20), strict=True):
        for _ in range(steps):
            shard.step()
    reader = new_reader(*(shard.log for shard in shards), steps=3)
    expected = windows_of(shards, 3, 1)
    tree, arrays = new_tree(reader) if prioritized else None, reader.arrays(5000)
    seen: Counter[tuple[int, int]] = Counter()
    for _ in range(40):
        assert reader.draw(arrays, tree)
        seen.update(zip(arrays.log.tolist(), arrays.row.tolist(), strict=True))
    assert seen.keys() == expected.keys()
    mean = 200_000 / len(expected)
    chi = sum((count - mean) ** 2 / mean for count in seen.values())
    freedom = len(expected) - 1
    assert abs(chi - freedom) < 5 * math.sqrt(2 * freedom)


def test_nothing_valid_is_said_so(memory: Memory) -> None:
    log = new_log(memory, 8, 1)
    reader = new_reader(log, steps=3)
    tree, arrays = new_tree(reader), reader.arrays(4)
    for step in range(3):
        assert not reader.draw(arrays) and not reader.draw(arrays, tree)
        one_step(log, step)
    assert not reader.draw(arrays) and not reader.draw(arrays, tree)
    one_step(log, 3)
    assert reader.draw(arrays) and reader.draw(arrays, tree)
    assert (arrays.row == 0).all()


def test_one_valid_row_among_many_is_found(memory: Memory) -> None:
    """Drawing again and again ends, even where nearly every row is the last of its writer."""
    log = new_log(memory, 50_000, 1)
    for step in range(30_000):
        log.cut(0)
        one_step(log, step, end=step == 777)
    reader = new_reader(log)
    arrays = reader.arrays(20)
    assert reader.draw(arrays)
    assert (arrays.obs == 777).all() and (arrays.next_obs == 777.5).all()


def test_rows_are_drawn_exactly_as_they_were_stored(memory: Memory) -> None:
    """RB-13: float64 actions and bytes are not converted on the way."""
    fields = replay_fields(SpaceSpec("box", (3,), "uint8"), FieldSpec("action", (2,), "float64"))
    log, rng = new_log(memory, 50, 2, fields), np.random.default_rng(3)
    obs, action = rng.integers(0, 256, (40, 2, 3), np.uint8), rng.random((40, 2, 2)) / 3
    never, reward = np.zeros(2, bool), np.ones(2, np.float32)
    for step in range(40):
        log.append(obs[step], action[step], reward, never, never)
    reader = new_reader(log)
    arrays = reader.arrays(300)
    assert reader.draw(arrays)
    assert (arrays.obs.dtype, arrays.action.dtype) == (np.uint8, np.float64)
    assert (arrays.obs == obs[arrays.row, arrays.log]).all()
    assert (arrays.next_obs == obs[arrays.row + 1, arrays.log]).all()
    assert (arrays.action == action[arrays.row, arrays.log]).all()


@pytest.mark.parametrize("prioritized", [False, True])
def test_further_columns_are_of_the_first_step_or_summed_as_rewards_are(
    memory: Memory, prioritized: bool
) -> None:
    cost, tag = Column("cost", (2,), "float32", fold="sum"), Column("tag", (3,), "int16")
    space, action = SpaceSpec("box", (2,), "float64"), FieldSpec("action", (), "int64")
    log = new_log(memory, 60, 2, replay_fields(space, action, (cost, tag)))
    rng = np.random.default_rng(4)
    for step in range(90):
        reward = rng.random(2, np.float32)
        extra = {
            "tag": np.full((2, 3), step, np.int16),
            "cost": np.stack([reward, 2 * reward], axis=1),
        }
        obs, ends = np.full((2, 2), step, np.float64), rng.random((2, 2)) < 0.1
        log.append(obs, np.full(2, step), reward, *ends, obs, extra=extra)
    reader = new_reader(log, steps=4)
    arrays, tree = reader.arrays(300), new_tree(reader) if prioritized else None
    assert reader.draw(arrays, tree, 1.0)
    assert len(np.unique(arrays.discount)) == 5  # windows of 1 to 4 steps, and of the end
    np.testing.assert_array_equal(arrays.extra["cost"][:, 0], arrays.reward)
    np.testing.assert_array_equal(arrays.extra["cost"][:, 1], 2 * arrays.reward)
    np.testing.assert_array_equal(arrays.extra["tag"], np.repeat(arrays.action[:, None], 3, 1))


def test_composite_observations_come_back_whole(memory: Memory) -> None:
    row = SpaceSpec.composite(
        [
            ("camera", SpaceSpec("box", (3, 3), "uint8")),
            ("arm/joints", SpaceSpec("box", (2,), "float64")),
        ]
    )
    fields = replay_fields(row, FieldSpec("action", (2,), "float32"))
    log = new_log(memory, 20, 3, fields)
    obs = np.zeros(3, row.row_dtype)
    for step in range(15):
        obs["camera"] = step
        obs["arm/joints"] = step + 0.25
        flags = np.zeros(3, bool)
        log.append(obs, np.full((3, 2), step, np.float32), np.ones(3, np.float32), flags, flags)
    reader = ReplayReader([log], steps=1, gamma=GAMMA, seed=SEED)
    arrays = reader.arrays(64)
    assert reader.draw(arrays)
    for k, first in enumerate(arrays.row.tolist()):
        assert (arrays.obs["camera"][k] == first).all()
        assert (arrays.next_obs["camera"][k] == first + 1).all()
        assert (arrays.next_obs["arm/joints"][k] == first + 1.25).all()


def test_batch_lies_in_a_mailbox(memory: Memory) -> None:
    """As the plan declares it, by name: the order of the box's columns does not matter."""
    log = new_log(memory, 20, 1)
    all_steps(log, range(8))
    fields = (
        FieldSpec("row", (), "int64", "rollout"),
        FieldSpec("log", (), "int32", "rollout"),
        *(FieldSpec(name, (), "float32", "rollout") for name in ("weight", "discount", "reward")),
        FieldSpec("action", (), "int64", "rollout"),
        FieldSpec("next_obs", (3, 2), "float64", "rollout"),
        FieldSpec("obs", (3, 2), "float64", "rollout"),
    )
    region = memory(Mailbox.nbytes(Drawn, fields, 7))
    box = Mailbox.create(region, Drawn, fields, 7)
    theirs = Mailbox.attach(region, Drawn, fields, 7)
    reader = new_reader(log, frames=3)
    assert reader.draw(ReplayArrays.of(box))
    box.publish(1, Drawn(7, 0))
    arrays = ReplayArrays.of(theirs)
    assert (arrays.obs[:, -1, 0] == arrays.row).all() and (arrays.row > 0).any()
    assert (arrays.next_obs[:, -1, 0] == arrays.row + 1).all()
    assert (arrays.action == arrays.row).all() and (arrays.weight == 1).all()


def test_readers_that_make_no_sense_are_refused(memory: Memory) -> None:
    log, other = new_log(memory, 10, 1), new_log(memory, 11, 1)
    with pytest.raises(SegmentError, match="10 rows hold no window of 8 steps, 0 rows"):
        new_reader(log, steps=8, frames=4)
    with pytest.raises(SegmentError, match="equal capacities"):
        new_reader(log, other)
    with pytest.raises(SegmentError, match="gamma"):
        ReplayReader([log], steps=1, gamma=1.5, seed=SEED)
    reader = new_reader(log)
    with pytest.raises(SegmentError, match="tree of 10 leaves; got 13"):
        reader.draw(reader.arrays(1), PriorityTree(13, 1.0, 0.0, SEED))
    with pytest.raises(SegmentError, match="hold no window"):
        new_reader(log, steps=(1 << 64) - 1)


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
def test_draw_that_looks_at_what_another_looked_at_gives_the_same(
    memory: Memory, prioritized: bool
) -> None:
    """Although writers are ahead by then, in the midst of a step of the shard."""
    rng = np.random.default_rng(3)
    shards = [Shard(new_log(memory, 13, 2, reserve=17), k, rng) for k in range(3)]
    readers = [new_reader(*(shard.log for shard in shards)) for _ in range(2)]
    trees = [new_tree(reader) if prioritized else None for reader in readers]
    first, second = (reader.arrays(40) for reader in readers)
    seen = np.zeros(6, np.uint64)
    for _ in range(60):
        for shard in shards:
            shard.step()
        if not readers[0].draw(first, trees[0], 0.4):
            continue
        assert readers[0].looked_at(seen)
        assert seen.tolist() == [rows for shard in shards for rows in shard.log.published()]
        for shard in shards[:2]:
            shard.step()
        readers[1].look_at(seen)
        assert readers[1].draw(second, trees[1], 0.4)
        for one, other in zip(first.in_order, second.in_order, strict=True):
            np.testing.assert_array_equal(one, other)
