"""The replay memories that `benchmarks.replay` compares with, behind one face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from benchmarks.measure import installed

BATCH = 256
CHUNK = 64
ALPHA, BETA = 0.6, 0.4

Rows = NDArray[np.generic]


@dataclass(frozen=True)
class Task:
    """What is stored.

    Attributes:
        name: For the figures.
        capacity: Transitions.
        row: Shape of one observation of an environment, a single frame where they are stacked.
        dtype: Of observations.
        frames: How many are stacked.
        actions: Numbers of an action.
    """

    name: str
    capacity: int
    row: tuple[int, ...]
    dtype: DTypeLike
    frames: int
    actions: int

    @property
    def stacked(self) -> tuple[int, ...]:
        """Shape of what a policy sees; the frames come last, as peers have it."""
        return self.row if self.frames == 1 else (*self.row, self.frames)

    def random_rows(self, count: int, *, stacked: bool) -> Rows:
        """Observations that no two chunks share."""
        shape = (count, *(self.stacked if stacked else self.row))
        rng = np.random.default_rng(0)
        if np.dtype(self.dtype) == np.uint8:
            return rng.integers(0, 256, shape, np.uint8)
        return rng.random(shape, np.dtype(self.dtype).type)


@dataclass
class Peer:
    """One filled memory.

    Attributes:
        add: Stores ``CHUNK`` transitions.
        draw: Draws ``BATCH`` of them uniformly; None where it was not made for that.
        draw_by_priority: Draws by priority and sets new ones.
        nbytes: What it takes.
    """

    add: Callable[[], object]
    draw: Callable[[], object] | None
    draw_by_priority: Callable[[], object] | None
    nbytes: int


def missing() -> list[str]:
    """What can't be compared here, and why."""
    skipped = [f"{name} is not installed" for name in ("cpprb", "torchrl") if not installed(name)]
    if installed("torchrl") and not _torchrl_has_trees():
        skipped.append("torchrl's prioritized sampler: its extension was built for another torch")
    return skipped


def _torchrl_has_trees() -> bool:
    try:
        from torchrl.data.replay_buffers.samplers import PrioritizedSampler

        PrioritizedSampler(16, ALPHA, BETA)
    except (ImportError, RuntimeError):
        return False
    return True


def cpprb(task: Task, *, prioritized: bool) -> Peer:
    """The buffers of cpprb, as they store both observations of a transition by default."""
    import cpprb

    obs = {"shape": task.stacked, "dtype": task.dtype}
    columns = {
        "obs": obs,
        "act": {"shape": task.actions, "dtype": np.float32},
        "rew": {"dtype": np.float32},
        "next_obs": obs,
        "done": {"dtype": np.float32},
    }
    kind = cpprb.PrioritizedReplayBuffer if prioritized else cpprb.ReplayBuffer
    memory = kind(task.capacity, columns, **({"alpha": ALPHA} if prioritized else {}))
    rows, action = task.random_rows(CHUNK, stacked=True), np.zeros((CHUNK, task.actions))
    flat, error = np.zeros(CHUNK, np.float32), np.random.default_rng(1).random(BATCH)

    def add() -> None:
        memory.add(obs=rows, act=action, rew=flat, next_obs=rows, done=flat)

    def draw_by_priority() -> None:
        batch = memory.sample(BATCH, beta=BETA)
        memory.update_priorities(batch["indexes"], error)

    fill(add, task)
    nbytes = sum(_nbytes(task, name) for name in columns)
    if prioritized:
        return Peer(add, None, draw_by_priority, nbytes)
    return Peer(add, lambda: memory.sample(BATCH), None, nbytes)


def torchrl(task: Task, *, prioritized: bool) -> Peer:
    """The buffer of torchrl over a contiguous storage, on one thread.

    On two, beside other work, its draws of vectors were twenty times slower, of images no faster.
    """
    import torch
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.data.replay_buffers.samplers import PrioritizedSampler

    torch.set_num_threads(1)
    sampler = PrioritizedSampler(task.capacity, ALPHA, BETA) if prioritized else None
    memory = TensorDictReplayBuffer(
        storage=LazyTensorStorage(task.capacity),
        batch_size=BATCH,
        **({"sampler": sampler, "priority_key": "error"} if prioritized else {}),
    )
    rows = torch.from_numpy(task.random_rows(CHUNK, stacked=True))
    flat = torch.zeros(CHUNK, 1)
    chunk = TensorDict(
        {
            "obs": rows,
            "act": torch.zeros(CHUNK, task.actions),
            "rew": flat,
            "next_obs": rows,
            "done": flat,
        },
        [CHUNK],
    )
    error = torch.rand(BATCH)

    def draw_by_priority() -> None:
        batch = memory.sample()
        batch["error"] = error
        memory.update_tensordict_priority(batch)

    def add() -> None:
        memory.extend(chunk)

    fill(add, task)
    nbytes = sum(_nbytes(task, name) for name in ("obs", "act", "rew", "next_obs", "done"))
    if prioritized:
        return Peer(add, None, draw_by_priority, nbytes)
    return Peer(add, memory.sample, None, nbytes)


def gather(task: Task) -> Peer:
    """NumPy: ``BATCH`` random rows of each column, copied into arrays that exist.

    Observations lie side by side, the next one behind each, and stacks are gathered frame by
    frame: the bytes that FastLoop copies.
    """
    rng = np.random.default_rng(2)
    count = task.capacity
    frames = np.tile(task.random_rows(1000, stacked=False), (count // 1000, *[1] * len(task.row)))
    columns = [rng.random((count, task.actions), np.float32), *np.zeros((2, count), np.float32)]
    stack = (BATCH, task.frames) if task.frames > 1 else (BATCH,)
    seen = [np.empty((*stack, *task.row), task.dtype) for _ in range(2)]
    rest = [np.empty((BATCH, *column.shape[1:]), column.dtype) for column in columns]

    def draw() -> None:
        row = rng.integers(task.frames, count - 1, BATCH)
        at = row if task.frames == 1 else row[:, None] + np.arange(1 - task.frames, 1)
        for offset, target in enumerate(seen):
            np.take(frames, at + offset, axis=0, out=target, mode="clip")
        for column, target in zip(columns, rest, strict=True):
            np.take(column, row, axis=0, out=target, mode="clip")

    return Peer(lambda: None, draw, None, frames.nbytes + sum(c.nbytes for c in columns))


def fill(add: Callable[[], object], task: Task) -> None:
    """Adds until the memory is full and has begun to overwrite."""
    for _ in range(task.capacity // CHUNK + 2):
        add()


def _nbytes(task: Task, column: str) -> int:
    if column in ("obs", "next_obs"):
        return task.capacity * int(np.prod(task.stacked)) * np.dtype(task.dtype).itemsize
    return task.capacity * 4 * (task.actions if column == "act" else 1)
