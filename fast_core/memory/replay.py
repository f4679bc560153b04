"""Draws of n-step windows from the replay logs of all shards, in the replay node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Window
from fast_core.algorithm.spec import FieldSpec, as_dtype
from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.header import Array
from fast_core.memory.priorities import PriorityTree, key_of
from fast_core.memory.replay_log import ReplayFields, ReplayLog, check_rows


class DrawnArrays:
    """Where windows go that are drawn, whatever becomes of them."""

    log: NDArray[np.int32]
    row: NDArray[np.int64]
    extra: Mapping[str, Array]
    _leading: ClassVar[tuple[str, ...]]

    @classmethod
    def of(cls, columns: Mapping[str, Array]) -> Self:
        """The arrays of a batch slot (a `Mailbox`) by name."""
        kind: Any = cls  # a dataclass
        names = {each.name for each in fields(kind)} - {"extra"}
        extra = {name: values for name, values in columns.items() if name not in names}
        return cast("Self", kind(**{name: columns[name] for name in names}, extra=extra))

    @cached_property
    def in_order(self) -> tuple[Array, ...]:
        """All arrays, those first that the native core takes, as it does."""
        usual = (*self._leading, "weight", "log", "row", "action", "reward")
        return (*(getattr(self, name) for name in usual), *self.extra.values())


@dataclass(frozen=True)
class ReplayArrays(DrawnArrays):
    """Where ``N`` drawn windows go.

    Attributes:
        obs: ``[N, ...]``; ``[N, frames, ...]`` with stacked frames, the newest last.
        next_obs: The same after the window, the final observation where the episode ended.
        action: ``[N, ...]``.
        reward: ``[N]`` float32, ``r_0 + gamma r_1 + ... + gamma^(k-1) r_(k-1)``.
        discount: ``[N]`` float32, ``gamma^k``, 0 where the window ended with a terminated step.
        weight: ``[N]`` float32, importance weights, 1 with uniform draws.
        log: ``[N]`` int32, which environment: shard times environments per shard, plus its number.
        row: ``[N]`` int64, number of the window's first row in its log.
        extra: ``[N, ...]`` by name, each further column of the logs, as its ``fold`` says.
    """

    obs: Array
    next_obs: Array
    action: Array
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    weight: NDArray[np.float32]
    log: NDArray[np.int32]
    row: NDArray[np.int64]
    extra: Mapping[str, Array] = field(default_factory=dict)
    _leading = "obs", "next_obs", "discount"


@dataclass(frozen=True)
class SequenceArrays(DrawnArrays):
    """Where ``N`` drawn sequences of ``L`` rows go, see `fast_core.algorithm.SequenceBatch`.

    ``log`` and ``row`` are those of the rows that were drawn.
    """

    obs: Array
    action: Array
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    mask: NDArray[np.bool_]
    weight: NDArray[np.float32]
    log: NDArray[np.int32]
    row: NDArray[np.int64]
    extra: Mapping[str, Array] = field(default_factory=dict)
    _leading = "obs", "terminated", "truncated", "mask"


def drawn_arrays(columns: Mapping[str, Array]) -> DrawnArrays:
    """The arrays of a batch slot by name, of whichever kind it is."""
    return SequenceArrays.of(columns) if "mask" in columns else ReplayArrays.of(columns)


class ReplayReader(_native.ReplayReader):
    """Draws n-step windows from the logs of all shards; belongs to one thread.

    A window begins at a step and has ``steps`` of them, or fewer where its episode ends. It is
    valid when all of it and the observation after it are committed, when it lies within one
    episode and one incarnation of the writer, and when the frames stacked for its first
    observation are still there. Uniform draws give each valid window of all logs the same
    probability.

    ``leaves`` are those that a `PriorityTree` of these logs has. ``sync(priorities)`` gives new
    valid rows a leaf, and empties those of rows that are gone. ``live()`` counts the rows that are
    there now, final observations and the newest ones included, ``committed()`` those that were
    ever written to all logs, ``valid()`` the windows that could be drawn now, one by one.
    ``counters()`` are windows given out; rows drawn that began no valid window, and were drawn
    again; and windows that were overwritten while they were copied, and were drawn again.

    ``stream()`` is where the random stream is. ``positions(to)`` writes how far the priority tree
    has followed the logs, ``[logs, 2]`` uint64. ``looked_at(to)`` writes how many rows of each log
    the last draw looked at, ``[logs]`` uint64; it returns whether these decided it: no writer
    overtook it, nor gave it more rows half-way. ``look_at(most)`` lets draws look at so many rows
    of each log at most, as if later ones weren't there.

    Concurrency:
        Reads the logs without waiting for anybody and writes nothing that is shared. A copy whose
        rows were overwritten meanwhile is thrown away and drawn again.
    """

    def __new__(
        cls,
        logs: Sequence[ReplayLog],
        *,
        steps: int,
        gamma: float,
        frames: int = 1,
        window: Window | None = None,
        seed: np.random.SeedSequence,
    ) -> Self:
        """Reads ``logs``, one per shard in their order, all of one plan.

        Args:
            logs: Of every shard.
            steps: Steps of a window, ``n``.
            gamma: Discount of one step.
            frames: Observations that are stacked.
            window: Draws sequences, whose ``steps`` are those from the drawn row on.
            seed: Of the draws.

        Raises:
            SegmentError: The plans differ, or a log has fewer rows than a window needs.
        """
        fields, natives = logs[0].fields, tuple(log.native for log in logs)
        if any(log.fields != fields for log in logs):
            raise SegmentError("the replay logs of one run must have the same columns")
        summed, entered = (
            sum(1 << at for at, each in enumerate(fields) if each.fold == fold)
            for fold in ("sum", "entry")
        )
        shape = (0, 0) if window is None else (window.before, window.length)
        made = _native.ReplayReader.__new__(
            cls, natives, steps, gamma, frames, *key_of(seed), summed, entered, *shape
        )
        reader = cast("Self", made)
        reader.fields, reader.frames, reader._window = fields, frames, window
        reader._logs = tuple(logs)
        # Of a batch's; what learners write comes after them.
        reader._arrays = len(fields) + (5 if window is None else 6)
        return reader

    fields: ReplayFields
    frames: int
    _window: Window | None
    _logs: tuple[ReplayLog, ...]
    _arrays: int

    def arrays(self, rows: int) -> Any:
        """Arrays that hold ``rows`` windows, in private memory, as `draw` takes them."""
        columns = batch_columns(self.fields, self.frames, self._window)
        return drawn_arrays(
            {each.name: np.zeros((rows, *each.shape), as_dtype(each.dtype)) for each in columns}
        )

    def draw(
        self, to: DrawnArrays, priorities: PriorityTree | None = None, beta: float = 0.0
    ) -> bool:
        """Fills ``to`` with windows drawn independently; False if no window is valid yet.

        With ``priorities`` the tree is brought up to date first, windows are drawn in proportion
        to it, and ``weight`` has their importance weights.

        Raises:
            SegmentError: An array has the wrong size, the tree is not one of these logs, or the
                writers overtook every one of a thousand tries.
        """
        return self._draw(to.in_order[: self._arrays], len(to.row), priorities, beta)

    def update(
        self,
        priorities: PriorityTree,
        log: NDArray[np.int32],
        row: NDArray[np.int64],
        error: NDArray[np.float32],
    ) -> int:
        """Sets priorities of drawn rows from their absolute errors; returns how many it could.

        All ``[N]``, ``log`` and ``row`` as they were drawn. What `PriorityTree.update` refuses is
        refused here, rows that have been overwritten too.
        """
        check_rows(log, "log", np.dtype(np.int32), ())
        check_rows(row, "row", np.dtype(np.int64), ())
        check_rows(error, "error", np.dtype(np.float32), ())
        return self._update(priorities, log, row, error)

    def state(self) -> dict[str, object]:
        """Random stream, and how far the priority tree has followed the logs."""
        positions = np.empty((sum(log.envs for log in self._logs), 2), np.uint64)
        self.positions(positions)
        return {"stream": self.stream(), "positions": positions}

    def load(self, state: dict[str, object]) -> None:
        """Continue exactly from `state`; the logs and the tree must have been loaded before.

        Raises:
            SegmentError: The logs hold less than they did then.
        """
        positions = np.ascontiguousarray(state["positions"], np.uint64)
        committed = [commit for log in self._logs for commit in log.published()]
        if positions.shape != (len(committed), 2) or (positions[:, 0] > committed).any():
            raise SegmentError(
                "the saved reader has seen rows that these replay logs do not hold; "
                "load the logs first, or begin with an empty priority tree"
            )
        self._set_positions(positions)
        self._set_stream(*cast("list[int]", state["stream"]))


def batch_columns(
    columns: ReplayFields, frames: int, window: Window | None = None
) -> tuple[FieldSpec, ...]:
    """The columns of a batch that is drawn from logs of ``columns``.

    As `ReplayArrays` has them, or `SequenceArrays` where a ``window`` says so.
    """
    (obs, *kept), stack = columns, (frames,) if frames > 1 else ()
    many: tuple[int, ...] = () if window is None else (window.length,)
    seen = (*stack, *obs.shape)
    rows = [
        (each.name, each.dtype, (*(() if each.fold == "entry" else many), *each.shape))
        for each in kept
    ]
    drawn: list[tuple[str, str, tuple[int, ...]]] = [
        ("weight", "float32", ()),
        ("log", "int32", ()),
        ("row", "int64", ()),
        *rows[2:],
    ]
    if window is None:
        observed = [(name, obs.dtype, seen) for name in ("obs", "next_obs")]
        drawn = [*observed, *rows[:2], ("discount", "float32", ()), *drawn]
    else:
        flags = [(name, "bool", many) for name in ("terminated", "truncated", "mask")]
        drawn = [("obs", obs.dtype, (window.length + 1, *seen)), *rows[:2], *flags, *drawn]
    return tuple(FieldSpec(name, shape, dtype, "rollout") for name, dtype, shape in drawn)
