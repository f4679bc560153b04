"""Replay logs and draws against a slow model that keeps lists."""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from fast_core.errors import SegmentError
from fast_core.memory import (
    Cell,
    LogRestore,
    LogSnapshot,
    PriorityTree,
    ReplayArrays,
    ReplayLog,
    ReplayReader,
    replay_fields,
)
from fast_core.memory.replay_log import ReplayFields
from fast_core.spec import FieldSpec, SpaceSpec

Memory = Callable[[int], memoryview]

FIELDS = replay_fields(
    SpaceSpec("box", (2,), "float64"),
    FieldSpec("action", (), "int64"),
    [FieldSpec("policy_version", (), "int64")],
)
SEED = np.random.SeedSequence(11)
GAMMA = 0.9


def new_log(
    memory: Memory,
    capacity: int,
    envs: int,
    fields: ReplayFields = FIELDS,
    reserve: int | None = None,
) -> ReplayLog:
    region = memory(ReplayLog.nbytes(fields, capacity, envs, reserve))
    return ReplayLog.create(region, fields, capacity, envs, reserve)


def new_reader(*logs: ReplayLog, steps: int = 1, frames: int = 1) -> ReplayReader:
    return ReplayReader(logs, steps=steps, gamma=GAMMA, frames=frames, seed=SEED)


def new_tree(reader: ReplayReader, alpha: float = 1.0) -> PriorityTree:
    return PriorityTree(reader.leaves, alpha, 0.0, np.random.SeedSequence(12))


@dataclass
class Row:
    """A row of the model; ``obs`` numbers what was observed, no two alike."""

    obs: float
    reward: float = 0.0
    origin: bool = False
    terminated: bool = False
    ended: bool = False
    begins: bool = False


@dataclass
class Model:
    """One environment, and all rows it ever wrote, in a list."""

    next_obs: float
    begins: bool = True
    rows: list[Row] = field(default_factory=list)

    def step(self, reward: float, terminated: bool, truncated: bool) -> float:
        obs, ended = self.next_obs, terminated or truncated
        self.rows.append(Row(obs, reward, True, terminated, ended, self.begins))
        self.begins = ended
        self.next_obs += 1
        if ended:
            self.rows.append(Row(self.next_obs))
            self.next_obs += 1
        return obs

    def windows(self, capacity: int, steps: int, frames: int) -> Iterator[tuple[int, object]]:
        """Number of each valid row with everything that a draw of it must give."""
        first = max(0, len(self.rows) - capacity)
        for number in range(first, len(self.rows)):
            window = self._window(number, first, steps, frames)
            if window is not None:
                yield number, window

    def _window(self, number: int, first: int, steps: int, frames: int) -> object:
        if not self.rows[number].origin:
            return None
        reward, last = 0.0, number
        for k in range(steps):
            if last == len(self.rows) or (k > 0 and self.rows[last].begins):
                return None
            row = self.rows[last]
            reward += GAMMA**k * row.reward
            last += 1
            if row.ended:
                break
        if last == len(self.rows) or (not row.ended and self.rows[last].begins):
            return None
        stacks = [self._stack(at, first, frames) for at in (number, last)]
        if stacks[0] is None or stacks[1] is None:
            return None
        discount = 0.0 if row.terminated else GAMMA ** (last - number)
        return (*map(tuple, stacks), pytest.approx(reward), pytest.approx(discount))

    def _stack(self, at: int, first: int, frames: int) -> list[float] | None:
        stack = [self.rows[at].obs]
        while len(stack) < frames:
            if not self.rows[at].begins:
                at -= 1
                if at < first:
                    return None
            stack.insert(0, self.rows[at].obs)
        return stack


@dataclass
class Shard:
    """A log and the models of its environments, fed alike."""

    log: ReplayLog
    number: int
    rng: np.random.Generator
    ending: float = 0.15

    def __post_init__(self) -> None:
        self.models = [Model(1e6 * (100 * self.number + k)) for k in range(self.log.envs)]

    def step(self) -> None:
        envs = self.log.envs
        terminated = self.rng.random(envs) < self.ending
        truncated = self.rng.random(envs) < self.ending
        reward = np.float32(self.rng.integers(0, 100, envs))
        steps = zip(self.models, reward, terminated, truncated, strict=True)
        obs = np.array([model.step(*given) for model, *given in steps])
        pairs = np.stack([obs, -obs], axis=1)
        self.log.append(
            pairs,
            obs.astype(np.int64),
            reward,
            terminated,
            truncated,
            pairs + np.array([1.0, -1.0]),
            extra=[obs.astype(np.int64) * 2],
        )


def windows_of(shards: list[Shard], steps: int, frames: int) -> dict[tuple[int, int], object]:
    envs = len(shards[0].models)
    return {
        (shard.number * envs + k, number): window
        for shard in shards
        for k, model in enumerate(shard.models)
        for number, window in model.windows(shard.log.capacity, steps, frames)
    }


def drawn_windows(arrays: ReplayArrays, frames: int) -> list[tuple[tuple[int, int], object]]:
    found = []
    for k in range(len(arrays.row)):
        obs, after = (a[k].reshape(frames, 2) for a in (arrays.obs, arrays.next_obs))
        assert (obs[:, 0] == -obs[:, 1]).all() and (after[:, 0] == -after[:, 1]).all()
        assert arrays.action[k] == obs[-1, 0]
        assert arrays.extra["policy_version"][k] == 2 * obs[-1, 0]
        window = (
            tuple(obs[:, 0].tolist()),
            tuple(after[:, 0].tolist()),
            float(arrays.reward[k]),
            float(arrays.discount[k]),
        )
        found.append(((int(arrays.log[k]), int(arrays.row[k])), window))
    return found


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
            assert set(tree.priorities().tolist()) <= {0.0, 1.0}
            assert (arrays.weight == 1).all()


@pytest.mark.parametrize("prioritized", [False, True], ids=["uniform", "prioritized"])
@pytest.mark.parametrize("ending", [0.1, 0.6])
def test_every_valid_window_is_drawn_as_often(
    memory: Memory, prioritized: bool, ending: float
) -> None:
    """Logs of different fill, so that a choice of the log first would show."""
    rng = np.random.default_rng(1)
    shards = [Shard(new_log(memory, 40, 2), k, rng, ending) for k in range(2)]
    for _ in range(60):
        shards[0].step()
    for _ in range(9):
        shards[1].step()
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


def test_n_step_returns_mix_no_environments(memory: Memory) -> None:
    """RB-10."""
    log = new_log(memory, 100, 2)
    rng, steps = np.random.default_rng(0), [0, 0]
    flags = np.zeros(1, bool)
    while min(steps) < 40:
        env = int(rng.integers(2))
        obs = np.full((1, 2), steps[env], np.float64)
        action, version = np.array([env]), np.zeros(1, np.int64)
        reward = np.array([(1, 10)[env]], np.float32)
        log.append(obs, action, reward, flags, flags, extra=[version], first=env)
        steps[env] += 1
    arrays = new_reader(log, steps=3).arrays(500)
    assert new_reader(log, steps=3).draw(arrays)
    found = {(int(e), round(float(r), 2)) for e, r in zip(arrays.log, arrays.reward, strict=True)}
    assert found == {(0, 2.71), (1, 27.1)}
    assert (arrays.action == arrays.log).all()


@pytest.mark.parametrize(("terminated", "discount"), [(True, 0.0), (False, 0.81)])
def test_short_window_at_an_end_keeps_its_own_discount(
    memory: Memory, terminated: bool, discount: float
) -> None:
    """RB-10: n = 3, but the episode ends after two steps."""
    log = new_log(memory, 10, 1)
    for step in range(2):
        end = np.array([step == 1])
        log.append(
            np.full((1, 2), step, np.float64),
            np.array([step]),
            np.ones(1, np.float32),
            end & terminated,
            end & (not terminated),
            np.full((1, 2), 77.0),
            extra=[np.zeros(1, np.int64)],
        )
    reader = new_reader(log, steps=3)
    arrays = reader.arrays(50)
    assert reader.draw(arrays)
    of_first = arrays.row == 0
    assert of_first.any() and not of_first.all()
    assert arrays.reward[of_first] == pytest.approx(1.9)
    assert arrays.discount[of_first] == pytest.approx(discount)
    assert (arrays.next_obs == 77.0).all()


def one_step(log: ReplayLog, obs: float, *, end: bool = False) -> None:
    flags = np.zeros(1, bool)
    log.append(
        np.full((1, 2), float(obs)),
        np.array([int(obs)]),
        np.ones(1, np.float32),
        flags,
        flags | end,
        np.full((1, 2), obs + 0.5),
        extra=[np.zeros(1, np.int64)],
    )


@pytest.mark.parametrize("inserted", [5, 8, 9, 30])
def test_the_open_row_is_never_drawn(memory: Memory, inserted: int) -> None:
    """RB-12: before and after the log wraps."""
    log = new_log(memory, 8, 1)
    for step in range(inserted):
        one_step(log, step)
    reader = new_reader(log)
    arrays = reader.arrays(100_000)
    assert reader.draw(arrays)
    first = max(0, inserted - 8)
    assert set(arrays.row.tolist()) == set(range(first, inserted - 1))
    assert (arrays.obs[:, 0] == arrays.row).all()
    assert (arrays.next_obs[:, 0] == arrays.row + 1).all()


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


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_no_window_or_stack_spans_two_writers(memory: Memory, steps: int) -> None:
    """A writer that was replaced left an episode open; its successor begins anew."""
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    log = ReplayLog.create(region, FIELDS, 100, 1)
    for step in range(10):
        one_step(log, step)
    successor = ReplayLog.attach(region, FIELDS, 100, 1)
    for step in range(1000, 1010):
        one_step(successor, step)
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
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    log = ReplayLog.create(region, FIELDS, 100, 1)
    for step in range(10):
        one_step(log, step)
    successor = ReplayLog.attach(region, FIELDS, 100, 1, continues=True)
    for step in range(10, 20):
        one_step(successor, step)
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
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    log = ReplayLog.create(region, FIELDS, 100, 1)
    one_step(log, -1)
    last(log, 0)
    rows = log.statistics().committed[0]
    successor = ReplayLog.attach(region, FIELDS, 100, 1, continues=True)
    for step in range(1, 5):
        one_step(successor, step)
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
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    ReplayLog.create(region, FIELDS, 100, 1)
    log = ReplayLog.attach(region, FIELDS, 100, 1, continues=True)
    for step in range(1, 6):
        one_step(log, step)
    reader = new_reader(log, frames=3)
    arrays = reader.arrays(200)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {2, 3}


def test_writer_continues_behind_rows_restored_after_it_attached(memory: Memory) -> None:
    log = new_log(memory, 100, 1)
    for step in range(10):
        one_step(log, step)
    region = memory(ReplayLog.nbytes(FIELDS, 100, 1))
    copy = ReplayLog.create(region, FIELDS, 100, 1)
    writer = ReplayLog.attach(region, FIELDS, 100, 1, continues=True)
    copied(log, copy)
    for step in range(10, 15):
        one_step(writer, step)
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


def test_priorities_follow_updates_and_refuse_rows_that_are_gone(memory: Memory) -> None:
    log = new_log(memory, 8, 1)
    reader = new_reader(log)
    tree, arrays = new_tree(reader), reader.arrays(400)
    for step in range(9):
        one_step(log, step)
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
    for step in range(9, 12):
        one_step(log, step)
    reader.sync(tree)
    assert reader.update(tree, env, row, error) == 1
    assert tree.statistics().refused_stale == 2
    unknown = np.array([-1, 1, 0], np.int32)
    assert reader.update(tree, unknown, np.array([5, 5, -3]), error) == 0
    assert reader.update(tree, env, np.array([5, 4, 7]), np.float32([3, math.nan, 1])) == 2
    # New rows had the greatest priority of those that lived then: 5, of row 6.
    assert {r.row: r.priority for r in reader.highest(tree, 9)} == {
        **{4: 1, 5: 3, 6: 5, 7: 1},
        **{8: 5, 9: 5, 10: 5},
    }
    reader.update(tree, np.zeros(4, np.int32), np.arange(7, 11), np.float32([1, 2, 3, 2]))
    for step in range(12, 15):
        one_step(log, step)
    reader.sync(tree)  # row 6 goes, and the outlier with it, as 11 and 12 come
    assert {r.row: r.priority for r in reader.highest(tree, 9)} == {
        **{7: 1, 8: 2, 9: 3, 10: 2},
        **{11: 3, 12: 3, 13: 3},
    }


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
    found = reader.highest(tree, 10)
    assert [(r.log, r.row) for r in found] == best
    assert [r.priority for r in found] == pytest.approx([last[place] for place in best])
    committed = [n for shard in shards for n in shard.log.statistics().committed]
    assert all(r.age == committed[r.log] - 1 - r.row for r in found)
    for _ in range(20):  # the writers go on, the tree has not followed them yet
        for shard in shards:
            shard.step()
    assert [(r.log, r.row) for r in reader.highest(tree, 10)] == best


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
            for left, right in zip(arrays.in_order(), again_arrays.in_order(), strict=True):
                assert left.tobytes() == right.tobytes()


def copied(log: ReplayLog, to: ReplayLog) -> ReplayLog:
    """``to``, with the rows of ``log`` as a checkpoint brings them."""
    snapshot, stream = LogSnapshot(log), io.BytesIO()
    while piece := snapshot.read(200):
        stream.write(piece)
    stream.seek(0)
    restore = LogRestore(to, stream)
    while restore.read(100):
        pass
    return to


@pytest.mark.parametrize("written", [0, 5, 50])
def test_saved_logs_and_their_reader_go_on_exactly(memory: Memory, written: int) -> None:
    rng = np.random.default_rng(9)
    shard = Shard(new_log(memory, 30, 2), 0, rng)
    for _ in range(written):
        shard.step()
    reader = new_reader(shard.log, steps=2, frames=3)
    tree, arrays = new_tree(reader), reader.arrays(32)
    reader.draw(arrays, tree)
    copy = copied(shard.log, new_log(memory, 30, 2, reserve=0))
    again = new_reader(copy, steps=2, frames=3)
    again_tree, again_arrays = new_tree(again), again.arrays(32)
    again_tree.load(tree.state())
    again.load(reader.state())
    assert copy.statistics().committed == shard.log.statistics().committed
    for prioritized in (True, False):
        found = reader.draw(arrays, tree if prioritized else None, 0.4)
        assert again.draw(again_arrays, again_tree if prioritized else None, 0.4) == found
        for left, right in zip(arrays.in_order(), again_arrays.in_order(), strict=True):
            assert left.tobytes() == right.tobytes() or not found


def test_log_restored_in_part_has_no_rows_before_it(memory: Memory) -> None:
    """Into a smaller one: the newest rows stay."""
    log = new_log(memory, 30, 1)
    for step in range(50):
        one_step(log, step)
    copy = copied(log, new_log(memory, 10, 1, reserve=0))
    reader = new_reader(copy, frames=4)
    tree, arrays = new_tree(reader), reader.arrays(500)
    assert reader.draw(arrays, tree) and reader.draw(arrays)
    assert set(arrays.row.tolist()) == set(range(43, 49)) and len(tree) == reader.valid()
    for step in range(1000, 1003):
        one_step(copy, step)
    assert reader.draw(arrays)
    assert set(arrays.row.tolist()) == {*range(46, 49), 50, 51}
    assert (arrays.next_obs[:, -1, 0] == arrays.obs[:, -1, 0] + 1).all()


def test_reader_state_of_fuller_logs_is_refused(memory: Memory) -> None:
    log, empty = new_log(memory, 8, 1), new_log(memory, 8, 1)
    for step in range(5):
        one_step(log, step)
    reader = new_reader(log)
    reader.sync(new_tree(reader))
    with pytest.raises(SegmentError, match="load the logs first"):
        new_reader(empty).load(reader.state())


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


def test_batch_lies_in_a_cell(memory: Memory) -> None:
    """As the plan declares it, by name: the order of the cell's columns does not matter."""
    log = new_log(memory, 20, 1)
    for step in range(8):
        one_step(log, step)
    fields = (
        FieldSpec("policy_version", (), "int64", "rollout"),
        FieldSpec("row", (), "int64", "rollout"),
        FieldSpec("log", (), "int32", "rollout"),
        *(FieldSpec(name, (), "float32", "rollout") for name in ("weight", "discount", "reward")),
        FieldSpec("action", (), "int64", "rollout"),
        FieldSpec("next_obs", (3, 2), "float64", "rollout"),
        FieldSpec("obs", (3, 2), "float64", "rollout"),
    )
    region = memory(Cell.nbytes(fields, 7))
    cell, theirs = Cell.create(region, fields, 7), Cell.attach(region, fields, 7)
    reader = new_reader(log, frames=3)
    assert reader.draw(ReplayArrays.of(cell))
    cell.publish(1, incarnation=7, version=0)
    arrays = ReplayArrays.of(theirs)
    assert set(arrays.extra) == {"policy_version"}
    assert (arrays.obs[:, -1, 0] == arrays.row).all() and (arrays.row > 0).any()
    assert (arrays.next_obs[:, -1, 0] == arrays.row + 1).all()
    assert (arrays.action == arrays.row).all() and (arrays.weight == 1).all()


def test_batch_lies_in_given_memory(memory: Memory) -> None:
    log = new_log(memory, 20, 1)
    for step in range(5):
        one_step(log, step)
    region = memory(ReplayArrays.nbytes(FIELDS, 7))
    arrays, seen = (ReplayArrays.at(region, FIELDS, 7) for _ in range(2))
    assert new_reader(log).draw(arrays)
    assert seen.row.tolist() == arrays.row.tolist() != [0] * 7
    assert (seen.obs[:, 0] == seen.row).all()


def test_readers_that_make_no_sense_are_refused(memory: Memory) -> None:
    log, other = new_log(memory, 10, 1), new_log(memory, 11, 1)
    with pytest.raises(SegmentError, match="10 rows hold no window of 8 steps and 4 frames"):
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
