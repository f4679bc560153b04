"""A slow model of replay logs that keeps lists, and what fills both alike."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.memory import (
    LogRestore,
    LogSnapshot,
    PriorityTree,
    ReplayArrays,
    ReplayLog,
    ReplayReader,
    replay_fields,
)
from fast_core.memory.header import Array
from fast_core.memory.replay_log import ReplayFields
from fast_core.tools.replay_view import RankedRow
from tests.memory.conftest import Memory as Memory

FIELDS = replay_fields(SpaceSpec("box", (2,), "float64"), FieldSpec("action", (), "int64"))
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


def streamed(
    snapshot: LogSnapshot, max_bytes: int, between: Callable[[], object] = lambda: None
) -> bytes:
    """What a snapshot gives in pieces of at most ``max_bytes``."""
    stream = b""
    while piece := snapshot.read(max_bytes):
        stream += piece
        between()
    return stream


def restored(log: ReplayLog, stream: bytes, max_bytes: int = 150) -> ReplayLog:
    """``log``, with the rows of a stream as a checkpoint brings them."""
    restore, taken = LogRestore(log, io.BytesIO(stream)), 0
    while got := restore.read(max_bytes):
        taken += got
    assert taken == len(stream)
    return log


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
        )


def highest(reader: ReplayReader, tree: PriorityTree, count: int) -> list[RankedRow]:
    """The rows of the highest priority, looked up one by one in their leaves."""
    priorities = cast("Array", tree.state()["priorities"]).tolist()
    seen = cast("Array", reader.state()["positions"])[:, 0].tolist()
    capacity = len(priorities) // len(seen)
    rows = [
        RankedRow(log, row, priorities[log * capacity + row % capacity])
        for log, end in enumerate(seen)
        for row in range(max(0, end - capacity), end)
    ]
    live = [row for row in rows if row.priority > 0]
    return sorted(live, key=lambda each: (-each.priority, each.log, each.row % capacity))[:count]


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
        window = (
            tuple(obs[:, 0].tolist()),
            tuple(after[:, 0].tolist()),
            float(arrays.reward[k]),
            float(arrays.discount[k]),
        )
        found.append(((int(arrays.log[k]), int(arrays.row[k])), window))
    return found


def one_step(log: ReplayLog, obs: float, *, end: bool = False) -> None:
    flags = np.zeros(1, bool)
    log.append(
        np.full((1, 2), float(obs)),
        np.array([int(obs)]),
        np.ones(1, np.float32),
        flags,
        flags | end,
        np.full((1, 2), obs + 0.5),
    )


def all_steps(log: ReplayLog, numbers: Iterable[int]) -> None:
    """A step of each number."""
    for number in numbers:
        one_step(log, number)
