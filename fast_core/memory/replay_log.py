"""Circular logs of transitions, one per environment of a shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import Column, FieldSpec, SpaceSpec, as_dtype
from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.header import (
    HEADER_BYTES,
    Array,
    check_header,
    check_room,
    write_header,
)

ReplayFields = tuple[Column, ...]

_BOOL = np.dtype(np.bool_)
COLUMNS = ("obs", "action", "reward")  # the first ones
_NOTHING: Mapping[str, Array] = MappingProxyType({})


def replay_fields(row: SpaceSpec, action: FieldSpec, extra: Sequence[Column] = ()) -> ReplayFields:
    """The columns of a replay log.

    Args:
        row: What an environment returns (``EnvironmentSpec.row``): one frame where they are
            stacked.
        action: How actions are stored (``Blueprint.action_field``).
        extra: What else is kept of each step (``Blueprint.columns``).
    """
    obs = Column("obs", row.shape, row.dtype)
    taken = Column(action.name, action.shape, action.dtype)
    return (obs, taken, Column("reward", (), "float32", fold="sum"), *extra)


def reserve_of(capacity: int, burst: int = 2) -> int:
    """Rows beyond ``capacity`` that a log keeps whole, for a checkpoint that copies it meanwhile.

    The copy runs ahead of the writer once it is under way (`LogSnapshot`), so the reserve covers
    its beginning: two bursts, and a 128th of the log, which keeps images below 1.02 times their
    bytes.

    Args:
        capacity: Rows of one environment that can be drawn.
        burst: Rows of one environment that may be written while the reader can't stop the writer.
    """
    return max(2 * burst, capacity // 128, min(64, capacity // 16))


class ReplayLog:
    """The logs of one shard: ``capacity`` rows of each of its ``envs`` environments.

    So many can be drawn; the rows of the reserve before them can't, they only are still whole.
    A step takes one row, and a second one for the final observation where its episode ends; the
    observation after a step is that of the next row. Whether a step terminated or was truncated
    takes bits of one byte per row.

    Concurrency:
        The node that executes the shard writes, anybody reads. A commit counter per environment
        is stored with release after the rows, and a release fence stands between it and the rows
        that follow. Readers copy, pass an acquire fence, and look again whether what they copied
        has stayed (`ReplayReader`). A writer killed at any point leaves the rows it had not
        committed, at most one step of each environment. A writer that attaches goes on behind the
        last committed rows, and marks its first ones: nothing is joined across that mark, unless
        it ``continues``. Attaching itself writes nothing, so readers mark nothing.
    """

    def __init__(
        self,
        memory: memoryview,
        fields: ReplayFields,
        capacity: int,
        envs: int,
        continues: bool = False,
    ) -> None:
        """Use ``create`` or ``attach``."""
        self.fields = fields
        self.capacity = capacity
        self.envs = envs
        self.native = _native.ReplayLog(memory[HEADER_BYTES:], continues)
        self._columns = [(f.name, as_dtype(f.dtype), f.shape) for f in fields]
        self._extra = [f.name for f in fields[len(COLUMNS) :]]

    @staticmethod
    def nbytes(fields: ReplayFields, capacity: int, envs: int, reserve: int | None = None) -> int:
        """Bytes of the region; ``reserve`` as `create` takes it.

        Raises:
            SegmentError: The fields are not those of a log, or a number makes no sense.
        """
        kept = reserve_of(capacity) if reserve is None else reserve
        return HEADER_BYTES + _native.replay_nbytes(capacity, envs, _row_bytes(fields), kept)

    @classmethod
    def row_nbytes(cls, fields: ReplayFields) -> int:
        """Bytes from a row to the next one, in a log and in what `LogSnapshot` reads of it."""
        return (cls.nbytes(fields, 65, 1, 0) - cls.nbytes(fields, 1, 1, 0)) // 64

    @classmethod
    def create(
        cls,
        memory: memoryview,
        fields: ReplayFields,
        capacity: int,
        envs: int,
        reserve: int | None = None,
    ) -> Self:
        """Makes empty logs in ``memory`` and attaches to them.

        ``reserve`` counts the rows of each that are kept whole beyond ``capacity``; None takes
        `reserve_of`.
        """
        kept = reserve_of(capacity) if reserve is None else reserve
        check_room(memory, cls.nbytes(fields, capacity, envs, kept), "replay log")
        _native.replay_create(memory[HEADER_BYTES:], capacity, envs, _row_bytes(fields), kept)
        write_header(memory, "replay log", _plan(fields, capacity, envs))
        return cls(memory, fields, capacity, envs)

    @classmethod
    def attach(
        cls,
        memory: memoryview,
        fields: ReplayFields,
        capacity: int,
        envs: int,
        reserve: int | None = None,
        *,
        continues: bool = False,
    ) -> Self:
        """Attaches to the logs in ``memory``.

        Args:
            memory: The region.
            fields: As they were created.
            capacity: Likewise.
            envs: Likewise.
            reserve: Likewise; what it is stands in the memory.
            continues: Whether a writer goes on exactly where the rows end: its first ones aren't
                marked then, but where an episode ended or was cut. It looks at the rows when it
                first writes, so they may be restored after it attached.

        Raises:
            SegmentError: They were made by another plan.
        """
        check_header(memory, "replay log", _plan(fields, capacity, envs))
        return cls(memory, fields, capacity, envs, continues)

    def append(
        self,
        obs: Array,
        action: Array,
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: Array | None = None,
        *,
        first: int = 0,
        extra: Mapping[str, Array] = _NOTHING,
    ) -> None:
        """Appends one step of ``B`` environments, from number ``first`` on.

        Args:
            obs: ``[B, ...]``, what was observed before the step: single frames where they are
                stacked.
            action: ``[B, ...]``, as stored.
            reward: ``[B]``.
            terminated: ``[B]``.
            truncated: ``[B]``.
            final_obs: ``[B, ...]``, read where an episode ended; None where none did.
            first: Number of the first environment within the shard.
            extra: ``[B, ...]`` by name, the further columns.

        Raises:
            SegmentError: An array has another type, shape or length than declared, or a final
                observation is missing. Nothing is stored then.
        """
        columns = (obs, action, reward, *(extra[name] for name in self._extra))
        self._check(columns, terminated, truncated, final_obs)
        self.native.append(first, columns, terminated, truncated, final_obs)

    def _check(
        self,
        columns: Iterable[Array],
        terminated: Array,
        truncated: Array,
        final_obs: Array | None,
    ) -> None:
        for array, (name, dtype, shape) in zip(columns, self._columns, strict=True):
            check_rows(array, name, dtype, shape)
        check_rows(terminated, "terminated", _BOOL, ())
        check_rows(truncated, "truncated", _BOOL, ())
        if final_obs is not None:
            check_rows(final_obs, "final_obs", *self._columns[0][1:])

    def appender(
        self,
        obs: Array,
        action: Array,
        reward: NDArray[np.float32],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        final_obs: Array,
        extra: Mapping[str, Array] = _NOTHING,
    ) -> Callable[[], None]:
        """What appends the ``T`` steps of all environments that these arrays hold at the time.

        For a writer that fills the same arrays again and again: they are checked here, once, which
        makes a step ten times cheaper than with `append`. ``[T, B, ...]`` each, otherwise as
        there; each step is committed before the next is written.

        Raises:
            SegmentError: An array has another type or shape than declared.
        """
        columns = (obs, action, reward, *(extra[name] for name in self._extra))
        steps = [
            (0, tuple(each[t] for each in columns), terminated[t], truncated[t], final_obs[t])
            for t in range(len(obs))
        ]
        self._check(*steps[0][1:])
        append = self.native.append

        def append_all() -> None:
            for step in steps:
                append(*step)

        return append_all

    def cut(self, env: int) -> None:
        """Lets nothing that is appended next for ``env`` follow from what is there.

        For an episode that is given up without a final observation; its last rows, whose windows
        stay open, are never drawn.
        """
        self.native.cut(env)

    def published(self) -> tuple[int, ...]:
        """Rows ever committed of each environment."""
        return tuple(self.native.committed())


def check_rows(
    array: Array, name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> None:
    """SegmentError unless ``array`` is contiguous rows of this dtype and shape."""
    if array.dtype == dtype and array.shape[1:] == shape and array.flags.c_contiguous:
        return
    raise SegmentError(
        f"replay column {name!r} takes contiguous rows of {dtype} {shape!r}; "
        f"got {array.dtype} {array.shape[1:]!r}. Nothing is converted: store what is declared"
    )


def _row_bytes(fields: ReplayFields) -> tuple[int, ...]:
    names = tuple(column.name for column in fields)
    if names[:3] != COLUMNS:
        raise SegmentError(f"the columns of a replay log begin with {COLUMNS!r}; got {names!r}")
    if (fields[2].shape, fields[2].dtype) != ((), "float32"):
        raise SegmentError(f"rewards are stored as float32 scalars; got {fields[2]!r}")
    return tuple(column.row_nbytes for column in fields)


def _plan(fields: ReplayFields, capacity: int, envs: int) -> object:
    return ([(f.name, f.shape, f.dtype) for f in fields], capacity, envs)
