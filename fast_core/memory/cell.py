"""What one node says to others, one thing at a time: typed rows that stay put, and a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Self

from fast_core.errors import SegmentError
from fast_core.memory import _native
from fast_core.memory.header import (
    HEADER_BYTES,
    Array,
    align,
    array_at,
    check_header,
    check_room,
    write_header,
)
from fast_core.spec import FieldSpec, as_dtype

CellFields = tuple[FieldSpec, ...]

_NUMBER, _INCARNATION, _VERSION, _SENDER = range(4)
_LINE_BYTES = 64
_BODY = HEADER_BYTES + _LINE_BYTES


class Cell(Mapping[str, Array]):
    """``cell["obs"]`` is ``[rows, ...]``; a field is written whole before the cell is published.

    A group of environments and its policy node have two: the request, written by the env node,
    and the reply, written by the policy node. At most one request is open, so there is nothing
    to queue: a request is open while its number is not that of the reply. What the two say is
    told apart by the number and the shard's incarnation; a reply that bears others is late and
    nobody reads its rows. A batch that was drawn from replay and what its optimizer says of it
    are such a pair too, in which ``incarnation`` and ``version`` hold other things
    (`fast_core.run.memory.RunMemory.batch`); several optimizers exchange gradients so.

    Concurrency:
        One node writes rows and words; for a request that is the node which executes the shard,
        for a reply the shard's policy node. The release store of the number in ``publish`` comes
        last; who loads a new one with ``number`` (acquire) sees everything before it. The writer
        of a request leaves it alone until the reply with its number is there, the writer of a
        reply leaves that alone until there is a request with another number. A writer killed
        anywhere before the last store leaves the old number, so nothing was said. A shard that
        moved may write a request while its policy node still answers the one before; that
        reply bears the old number.
    """

    def __init__(self, memory: memoryview, fields: CellFields, rows: int) -> None:
        """Use ``create`` or ``attach``."""
        self.rows = rows
        self._words = _native.Words(memory[HEADER_BYTES:_BODY])
        self._arrays: dict[str, Array] = {}
        offset = _BODY
        for field in fields:
            shape = (rows, *field.shape)
            self._arrays[field.name] = array_at(memory, offset, as_dtype(field.dtype), shape)
            offset += align(field.row_nbytes * rows)

    @staticmethod
    def nbytes(fields: CellFields, rows: int) -> int:
        """Bytes of the region."""
        return _BODY + sum(align(field.row_nbytes * rows) for field in fields)

    @classmethod
    def create(cls, memory: memoryview, fields: CellFields, rows: int) -> Self:
        """Make a cell in ``memory`` in which nothing was said yet, and attach to it.

        Raises:
            SegmentError: It has no row, or does not fit.
        """
        if rows < 1:
            raise SegmentError(f"a cell needs at least one row; got {rows!r}")
        check_room(memory, cls.nbytes(fields, rows), "cell")
        memory[HEADER_BYTES:_BODY] = bytes(_LINE_BYTES)
        write_header(memory, "cell", (fields, rows))
        return cls(memory, fields, rows)

    @classmethod
    def attach(cls, memory: memoryview, fields: CellFields, rows: int) -> Self:
        """Attach to the cell in ``memory``.

        Raises:
            SegmentError: It holds none, or one of other fields or rows.
        """
        check_header(memory, "cell", (fields, rows))
        check_room(memory, cls.nbytes(fields, rows), "cell")
        return cls(memory, fields, rows)

    def __getitem__(self, field: str) -> Array:
        """The field's rows; the array is a view of the shared memory."""
        return self._arrays[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def publish(self, number: int, *, incarnation: int, version: int, sender: int = 0) -> None:
        """Say what the rows hold, as number ``number``.

        Args:
            number: 1 for the first request of the cell, then one more each time; a reply bears
                its request's.
            incarnation: The shard's, as the request has it.
            version: Oldest weights wanted, or the ones that acted.
            sender: Rank of the node that waits for the reply.
        """
        # Release each, of which the last pairs with the acquire load in number.
        store = self._words.store
        store(_INCARNATION, incarnation)
        store(_VERSION, version)
        store(_SENDER, sender)
        store(_NUMBER, number)

    def published(self) -> int:
        """Number of what was last said."""
        return self.number()

    def number(self) -> int:
        """Number of what was last said, 0 for nothing."""
        # Acquire: pairs with the last release store in publish.
        return self._words.load(_NUMBER)

    @property
    def incarnation(self) -> int:
        """The shard's when this was said."""
        return self._words.load(_INCARNATION)

    @property
    def version(self) -> int:
        """Oldest weights wanted, or the ones that acted."""
        return self._words.load(_VERSION)

    @property
    def sender(self) -> int:
        """Rank of the node that waits for the reply."""
        return self._words.load(_SENDER)
