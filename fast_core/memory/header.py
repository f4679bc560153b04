"""The header of structures whose payload Python lays out, and arrays over their memory."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import as_dtype
from fast_core.errors import SegmentError
from fast_core.memory import _native

HEADER_BYTES = 64
ALIGNMENT_BYTES = 64
# Magic, layout version, digest of kind and plan.
_HEADER = struct.Struct("<8sQ16s")
_MAGIC = b"FLPLAN01"

# Element types are known from the field's declaration, which no static type can follow.
Array = NDArray[Any]
Declared = Iterable[tuple[str, str, tuple[int, ...]]]  # name, dtype and shape of each column


def align(nbytes: int, alignment: int = ALIGNMENT_BYTES) -> int:
    """``nbytes`` rounded up to a multiple of ``alignment``."""
    return -(-nbytes // alignment) * alignment


def digest_of(kind: str, plan: object) -> bytes:
    """16 bytes that differ when ``kind`` or the text of ``plan`` do."""
    return hashlib.blake2s(f"{kind} {plan!r}".encode(), digest_size=16).digest()


def check_room(memory: memoryview, nbytes: int, kind: str) -> None:
    """SegmentError when ``memory`` has less than ``nbytes`` bytes."""
    if memory.nbytes < nbytes:
        raise SegmentError(
            f"{kind} needs {nbytes} bytes; got {memory.nbytes}. Size the region with nbytes()"
        )


def write_header(memory: memoryview, kind: str, plan: object) -> None:
    """Marks ``memory`` as a ``kind`` laid out by ``plan``; the last step of a create."""
    header = (_MAGIC, _native.LAYOUT_VERSION, digest_of(kind, plan))
    _HEADER.pack_into(memory, 0, *header)


def check_header(memory: memoryview, kind: str, plan: object) -> None:
    """Checks what ``write_header`` wrote; the first step of an attach.

    Raises:
        SegmentError: Nothing was created here, by another build, or by another plan.
    """
    check_room(memory, HEADER_BYTES, kind)
    magic, version, digest = _HEADER.unpack_from(memory, 0)
    if magic != _MAGIC:
        raise SegmentError(
            f"{kind}: no FastLoop structure here (magic {magic!r}). "
            "The region was never created, or is damaged"
        )
    if version != _native.LAYOUT_VERSION:
        raise SegmentError(
            f"{kind}: layout version {version}, this build has {_native.LAYOUT_VERSION}. "
            "All processes of a run must use one build"
        )
    if digest != digest_of(kind, plan):
        raise SegmentError(
            f"{kind}: created by another plan than {plan!r}. "
            "All processes of a run must use one configuration"
        )


class Planned:
    """Base of structures whose payload Python lays out: one shape sizes, creates, attaches to it.

    A subclass is constructed with a memory and that shape, by these methods alone.

    Attributes:
        what: What errors call it.
    """

    __slots__ = ()
    what: ClassVar[str]

    def __init__(self, memory: memoryview, *shape: Any) -> None:
        """Use ``create`` or ``attach``."""
        raise NotImplementedError

    @staticmethod
    def nbytes(*shape: Any, **options: Any) -> int:
        """Bytes of the region."""
        raise NotImplementedError

    @classmethod
    def plan(cls, *shape: Any) -> object:
        """What all who attach must have alike, and the text of which says so."""
        return shape

    @staticmethod
    def words_nbytes(*shape: Any) -> int:
        """Bytes behind the header that ``create`` clears; all else is of no meaning at first."""
        return 0

    @classmethod
    def create(cls, memory: memoryview, *shape: Any) -> Self:
        """Makes one of which nothing is published in ``memory`` and attaches to it.

        Raises:
            SegmentError: The shape makes no sense, or does not fit.
        """
        check_room(memory, cls.nbytes(*shape), cls.what)
        size = cls.words_nbytes(*shape)
        memory[HEADER_BYTES:][:size] = bytes(size)
        write_header(memory, cls.what, cls.plan(*shape))
        return cls(memory, *shape)

    @classmethod
    def attach(cls, memory: memoryview, *shape: Any) -> Self:
        """Attaches to the one in ``memory``.

        Raises:
            SegmentError: There is none, or it was made by another plan.
        """
        check_header(memory, cls.what, cls.plan(*shape))
        check_room(memory, cls.nbytes(*shape), cls.what)
        return cls(memory, *shape)

    def published(self) -> int | tuple[int, ...] | None:
        """What of it is complete; None where nothing ever is."""
        return None


def columns_end(begin: int, columns: Declared) -> int:
    """Where columns end that lie one behind the other from ``begin`` on, each in cache lines."""
    for _, dtype, shape in columns:
        begin = align(begin + math.prod(shape) * as_dtype(dtype).itemsize)
    return begin


def columns_at(memory: memoryview, begin: int, columns: Declared) -> dict[str, Array]:
    """Views of such columns, by name; the memory has room for them (`check_room`)."""
    arrays: dict[str, Array] = {}
    for name, dtype, shape in columns:
        arrays[name] = np.ndarray(shape, as_dtype(dtype), memory, begin)
        begin = columns_end(begin, [(name, dtype, shape)])
    return arrays
