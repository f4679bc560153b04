"""Rollout slots of one shard: typed arrays in shared memory that are written and read in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fast_core.algorithm.spec import FieldSpec
from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.header import (
    HEADER_BYTES,
    Array,
    Declared,
    Planned,
    columns_at,
    columns_end,
)

OPEN = 0
# Each slot's words have a cache line of their own; words are 8 bytes.
_COMMITTED, _INCARNATION, _WORDS_PER_LINE = 0, 1, 8
_LINE_BYTES = 64

RolloutFields = tuple[FieldSpec, ...]


class RolloutSlot(Mapping[str, Array]):
    """One rollout: ``slot["reward"]`` is ``[T, B, ...]``, a field of axes T+1 ``[T + 1, B, ...]``.

    Concurrency:
        The node that executes the shard writes all fields between ``open`` and ``commit``. The
        commit word is stored with release after the fields; a reader that finds its rollout id
        with ``committed`` (acquire) sees all of them. The slot is opened again only after
        ``Trained``. A writer that dies leaves an open slot, which its successor opens anew, or a
        whole rollout that nobody was told of; the number of that is given out again, so that
        only the incarnation tells the two apart.
    """

    def __init__(self, index: int, arrays: dict[str, Array], words: _native.Words) -> None:
        """Use ``RolloutStore.slot``."""
        self.index = index
        self._arrays = arrays
        self._words = words
        self._line = index * _WORDS_PER_LINE

    def __getitem__(self, field: str) -> Array:
        """The field's column; the array is a view of the shared memory."""
        return self._arrays[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def open(self, rollout_id: int) -> None:
        """Marks the slot as being written, before the first field is.

        Raises:
            SegmentError: ``rollout_id`` is below 1; 0 marks an open slot.
        """
        self._check(rollout_id)
        # Release: pairs with the acquire load in committed.
        self._words.store(self._line + _COMMITTED, OPEN)

    def commit(self, rollout_id: int, incarnation: int) -> None:
        """Publishes the fields as rollout ``rollout_id``, at least 1, of an incarnation."""
        self._check(rollout_id)
        self._words.store(self._line + _INCARNATION, incarnation)
        # Release: pairs with the acquire load in committed; all else was written before it.
        self._words.store(self._line + _COMMITTED, rollout_id)

    def committed(self) -> int:
        """Id of the rollout that the slot holds whole, 0 while it is open or never used."""
        # Acquire: pairs with the release stores in commit and open.
        return self._words.load(self._line + _COMMITTED)

    @property
    def incarnation(self) -> int:
        """Which incarnation of the shard collected what is committed; to be read after that."""
        return self._words.load(self._line + _INCARNATION)

    def _check(self, rollout_id: int) -> None:
        if rollout_id < 1:
            raise SegmentError(f"rollout ids start at 1, slot {self.index} got {rollout_id!r}")


class RolloutStore(Planned):
    """All rollout slots of one shard; of each field all slots lie together: ``[slots, T, B, ...]``.

    Concurrency:
        Each slot's: see ``RolloutSlot``. Which slot is whose is the scheduler's ledger.
    """

    what = "rollout store"

    def __init__(
        self, memory: memoryview, fields: RolloutFields, slots: int, steps: int, envs: int
    ) -> None:
        """Use ``create`` or ``attach``."""
        self.fields = fields
        self.steps = steps
        self.envs = envs
        self._words = _native.Words(memory[HEADER_BYTES:][: slots * _LINE_BYTES])
        columns = _declared(fields, slots, steps, envs)
        self._columns = columns_at(memory, _columns_begin(slots), columns)
        self._slots = tuple(
            RolloutSlot(k, {name: column[k] for name, column in self._columns.items()}, self._words)
            for k in range(slots)
        )

    @staticmethod
    def nbytes(fields: RolloutFields, slots: int, steps: int, envs: int) -> int:
        """Bytes of the region for ``slots`` rollouts of ``steps`` steps of ``envs`` environments.

        Raises:
            SegmentError: A count is below 1, there is no field, or a name occurs twice.
        """
        _check_plan(fields, slots, steps, envs)
        return columns_end(_columns_begin(slots), _declared(fields, slots, steps, envs))

    @classmethod
    def plan(cls, fields: RolloutFields, *counts: int) -> object:
        """The columns of the fields, and the counts."""
        return ([(f.name, f.shape, f.dtype, f.axes, f.history) for f in fields], *counts)

    @staticmethod
    def words_nbytes(fields: RolloutFields, slots: int, steps: int, envs: int) -> int:
        """A line for each slot: all are open."""
        return slots * _LINE_BYTES

    def slot(self, index: int) -> RolloutSlot:
        """Slot ``index``; SegmentError where there is none."""
        if not 0 <= index < len(self._slots):
            raise SegmentError(
                f"rollout slot {index!r} asked; the store has 0..{len(self._slots) - 1}"
            )
        return self._slots[index]

    def column(self, field: str) -> Array:
        """All slots of a field, ``[slots, T, B, ...]``, for readers that take several at once."""
        return self._columns[field]

    def __len__(self) -> int:
        return len(self._slots)

    def published(self) -> tuple[int, ...]:
        """Id of the rollout that each slot holds whole, 0 where it is open or never used."""
        return tuple(slot.committed() for slot in self._slots)


def _check_plan(fields: RolloutFields, slots: int, steps: int, envs: int) -> None:
    if min(slots, steps, envs) < 1:
        raise SegmentError(
            f"slots, steps and envs must be at least 1; got {slots!r}, {steps!r}, {envs!r}"
        )
    names = [field.name for field in fields]
    if not names or len(set(names)) != len(names):
        raise SegmentError(f"a rollout needs fields of different names; got {names!r}")


def _columns_begin(slots: int) -> int:
    return HEADER_BYTES + slots * _LINE_BYTES


def _declared(fields: RolloutFields, slots: int, steps: int, envs: int) -> Declared:
    """The column of each field, ``[slots, T, B, ...]``."""
    return [(f.name, f.dtype, (slots, *f.array_shape(steps, envs))) for f in fields]
