"""A kind that does not keep the contract is refused, by a sentence for each fault."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fast_core.errors import ContractBroken
from fast_core.memory.header import HEADER_BYTES, check_header, check_room, write_header
from fast_core.testing import check_memory_kind


class Cell:
    """The newest row: its number, and so many bytes."""

    def __init__(self, memory: memoryview, size: int) -> None:
        self._number = memory[HEADER_BYTES:][:8].cast("q")
        self._rows = memory[HEADER_BYTES + 8 :][: 2 * size]
        self._size = size

    @staticmethod
    def nbytes(size: int) -> int:
        return HEADER_BYTES + 8 + 2 * size

    @classmethod
    def create(cls, memory: memoryview, size: int) -> Any:
        check_room(memory, cls.nbytes(size), "cell")
        write_header(memory, "cell", size)
        return cls(memory, size)

    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        check_header(memory, "cell", size)
        check_room(memory, cls.nbytes(size), "cell")
        return cls(memory, size)

    def write(self, number: int) -> None:
        self._row(number)[:] = bytes([number]) * self._size
        self._number[0] = number

    def read(self) -> object:
        return self._number[0] and bytes(self._row(self._number[0]))

    def published(self) -> int:
        return self._number[0]

    def _row(self, number: int) -> memoryview:
        return self._rows[number % 2 * self._size :][: self._size]


class Grows(Cell):
    sizes = itertools.count(200)

    @classmethod
    def nbytes(cls, size: int) -> int:  # type: ignore[override]
        return next(cls.sizes)


class NoHeader(Cell):
    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        check_room(memory, cls.nbytes(size), "cell")
        return cls(memory, size)


class AnySize(Cell):
    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        check_header(memory, "cell", 4)
        check_room(memory, cls.nbytes(4), "cell")
        return cls(memory, size)


class CutShort(Cell):
    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        check_header(memory, "cell", size)
        return cls(memory, size)


class Raises(Cell):
    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        if len(memory) < cls.nbytes(size):
            raise ValueError("too short")
        return super().attach(memory, size)


class Signs(Cell):
    """Counts who attached."""

    @classmethod
    def attach(cls, memory: memoryview, size: int) -> Any:
        made = super().attach(memory, size)
        memory[40] = memory[40] + 1
        return made


class KeepsToItself(Cell):
    known = 0

    def write(self, number: int) -> None:
        super().write(number)
        self.known = number

    def published(self) -> int:
        return self.known


class NumberFirst(Cell):
    """Torn: a reader finds the new number, and the row of the one before the last."""

    def write(self, number: int) -> None:
        self._number[0] = number
        self._row(number)[:] = bytes([number]) * self._size


class OneRow(Cell):
    """Writes over what is published."""

    def _row(self, number: int) -> memoryview:
        return self._rows[: self._size]


class Locks(Cell):
    """A writer that dies leaves it locked."""

    def write(self, number: int) -> None:
        if self._number[0] < 0:
            return
        last, self._number[0] = self._number[0], -self._number[0] - 1
        assert last >= 0
        super().write(number)

    def published(self) -> int:
        number = self._number[0]
        return number if number >= 0 else -number - 1

    def read(self) -> object:
        return bytes(self._row(self.published()))


class Beyond(Cell):
    @classmethod
    def create(cls, memory: memoryview, size: int) -> Any:
        made = super().create(memory, size)
        whole: Any = memory.obj
        memoryview(whole)[len(memory)] = 1
        return made


BROKEN = [
    (Grows, r"nbytes\(4,\) must be the same positive integer .*; got 200 and 201"),
    (NoHeader, "attach must refuse a region that was never created; it took it.* magic word"),
    (AnySize, r"attach must refuse the shape \(5,\); it took it"),
    (CutShort, "attach must refuse a region that is cut short; it took it"),
    (Raises, r"attach must refuse .* cut short with SegmentError; it raised ValueError"),
    (Signs, "attach and published must not write; the bytes changed"),
    (KeepsToItself, r"after write 1 published\(\) is 1 to the writer, 0 to who attached early"),
    (NumberFirst, r"must have published all or nothing; dead within write 1 it left \(1, "),
    (OneRow, r"dead within write 2 it left \(1, b'\\x02\\x02"),
    (Locks, r"in a dead writer's place must go on; after a death within write 1 and write 2"),
    (Beyond, r"must stay within its 80 bytes; bytes behind them were written"),
]


def check(kind: Any, **options: bool) -> None:
    check_memory_kind(kind, (4,), kind.write, kind.read, **options)


def test_sound_one_passes() -> None:
    check(Cell)


@pytest.mark.parametrize(("kind", "said"), BROKEN, ids=lambda each: getattr(each, "__name__", ""))
def test_broken_one_is_refused_by_a_sentence(kind: Any, said: str) -> None:
    with pytest.raises(ContractBroken, match=rf"^{kind.__name__}: .*{said}"):
        check(kind)


def test_kind_that_reuses_its_place_says_so() -> None:
    """As a mailbox, which is written again once its reader answered."""
    with pytest.raises(ContractBroken):
        check(OneRow)
    check(OneRow, keeps=False)
