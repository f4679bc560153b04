"""The header of structures whose payload Python lays out, and arrays over their memory."""

from __future__ import annotations

import hashlib
import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.errors import SegmentError
from fast_core.memory import _native

HEADER_BYTES = 64
ALIGNMENT_BYTES = 64
# Magic, layout version, digest of kind and plan.
_HEADER = struct.Struct("<8sQ16s")
_MAGIC = b"FLPLAN01"

# Element types are known from the field's declaration, which no static type can follow.
Array = NDArray[Any]


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


def array_at(
    memory: memoryview, offset: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    """View of ``memory`` from ``offset`` on as an array.

    Raises:
        SegmentError: It does not fit.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if offset + nbytes > memory.nbytes:
        raise SegmentError(
            f"an array {shape!r} of {dtype.name} needs {nbytes} bytes from offset {offset}; "
            f"the region has {memory.nbytes}"
        )
    return np.ndarray(shape, dtype, memory, offset)
