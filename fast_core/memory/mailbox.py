"""What one node says to others, one thing at a time: typed rows that stay put, words, a number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, get_type_hints

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

MailFields = tuple[FieldSpec, ...]

_NUMBER = 0
_LINE_BYTES = 64
_BODY = HEADER_BYTES + _LINE_BYTES
_MOST_WORDS = _LINE_BYTES // 8 - 1  # beside the number


W = TypeVar("W", bound=tuple[int, ...])  # a named tuple of int and bool


class Mailbox(Planned, Mapping[str, Array], Generic[W]):
    """``box["obs"]`` is ``[rows, ...]``; a field is written whole before the box is published.

    Which words it has is declared by a named tuple of integers and flags, one type per use
    (`fast_core.run.mail`); words and fields are the same for all who attach. Two mailboxes make a
    conversation: a request is open while its number is not that of the reply, so there is
    nothing to queue. A reply whose number is not that of the request is late, and nobody reads
    its rows.

    Concurrency:
        One node writes rows and words. The release store of the number in ``publish`` comes
        last; who loads a new one with ``number`` (acquire) sees everything before it. The writer
        of a request leaves it alone until the reply with its number is there, the writer of a
        reply leaves that alone until there is a request with another number. A writer killed
        anywhere before the last store leaves the old number, so nothing was said. A shard that
        moved may write a request while its policy node still answers the one before; that
        reply bears the old number.
    """

    what = "mailbox"

    def __init__(self, memory: memoryview, words: type[W], fields: MailFields, rows: int) -> None:
        """Use ``create`` or ``attach``."""
        self.rows = rows
        self._native = _native.Words(memory[HEADER_BYTES:_BODY])
        self._kinds = tuple(get_type_hints(words).values())
        named: Any = words  # no type says what all named tuples have
        self._make: Callable[[Iterable[int]], W] = named._make
        self._arrays = columns_at(memory, _BODY, _columns(fields, rows))

    @staticmethod
    def nbytes(words: type[W], fields: MailFields, rows: int) -> int:
        """Bytes of the region.

        Raises:
            SegmentError: It has no row.
        """
        if rows < 1:
            raise SegmentError(f"a mailbox needs at least one row; got {rows!r}")
        assert len(get_type_hints(words)) <= _MOST_WORDS, f"{words} does not fit a line"
        return columns_end(_BODY, _columns(fields, rows))

    @classmethod
    def plan(cls, words: type[W], fields: MailFields, rows: int) -> object:
        """The names of the words, the fields and the rows."""
        return (words.__name__, tuple(get_type_hints(words)), fields, rows)

    @staticmethod
    def words_nbytes(words: type[W], fields: MailFields, rows: int) -> int:
        """The number and the words: nothing was said yet."""
        return _LINE_BYTES

    def __getitem__(self, field: str) -> Array:
        """The field's rows; the array is a view of the shared memory."""
        return self._arrays[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def publish(self, number: int, words: W) -> None:
        """Say what rows and words hold, as ``number``: 1 first, then one more each time.

        A reply bears its request's number.
        """
        # Release each, of which the last pairs with the acquire load in number.
        store = self._native.store
        for place, word in enumerate(words, 1):
            store(place, word)
        store(_NUMBER, number)

    def published(self) -> int:
        """Number of what was last said, 0 for nothing."""
        return self.number()

    def number(self) -> int:
        """Number of what was last said, 0 for nothing."""
        # Acquire: pairs with the last release store in publish.
        return self._native.load(_NUMBER)

    @property
    def words(self) -> W:
        """What was said beside the rows; to be read after the number."""
        load = self._native.load
        return self._make([kind(load(k)) for k, kind in enumerate(self._kinds, 1)])


def _columns(fields: MailFields, rows: int) -> Declared:
    return [(field.name, field.dtype, (rows, *field.shape)) for field in fields]
