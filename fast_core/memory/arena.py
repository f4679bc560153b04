"""Where everything lies in a segment, planned before any memory exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from fast_core.errors import SegmentError
from fast_core.memory.header import (
    ALIGNMENT_BYTES,
    HEADER_BYTES,
    align,
    check_header,
    check_room,
    write_header,
)
from fast_core.memory.segment import Segment


@dataclass(frozen=True)
class Region:
    """One row of a layout's table."""

    name: str
    offset: int
    nbytes: int


class Layout:
    """A plan of named regions; the same calls give the same plan in every process."""

    def __init__(self) -> None:
        """Starts with nothing but the arena's header."""
        self._regions: dict[str, Region] = {}
        self._end = HEADER_BYTES

    def add(self, name: str, nbytes: int, align: int = ALIGNMENT_BYTES) -> int:
        """Plans a region and returns its offset.

        Args:
            name: Unique in this layout.
            nbytes: Size, at least 1.
            align: Power of two, at least 64: structures rely on whole cache lines.

        Raises:
            SegmentError: The name is taken, or size or alignment make no sense.
        """
        if name in self._regions:
            raise SegmentError(f"region {name!r} is already in the layout; choose another name")
        if nbytes < 1:
            raise SegmentError(f"region {name!r} must have at least 1 byte; got {nbytes!r}")
        if align < ALIGNMENT_BYTES or align & (align - 1):
            raise SegmentError(
                f"region {name!r}: align must be a power of two of at least 64; got {align!r}"
            )
        offset = -(-self._end // align) * align
        self._regions[name] = Region(name, offset, nbytes)
        self._end = offset + nbytes
        return offset

    @property
    def nbytes(self) -> int:
        """Bytes of the segment that holds all of it."""
        return align(self._end)

    def describe(self) -> list[Region]:
        """The table of regions, in order of their offsets."""
        return list(self._regions.values())

    def __getitem__(self, name: str) -> Region:
        """The region planned under ``name``; SegmentError if there is none."""
        try:
            return self._regions[name]
        except KeyError:
            known = ", ".join(self._regions) or "none"
            raise SegmentError(f"no region {name!r} in the layout; it has: {known}") from None


class Arena:
    """A segment laid out by a ``Layout``.

    Concurrency:
        The launcher writes the header before it starts any other process; nobody writes it
        again. Each region has the writers that its structure names.
    """

    def __init__(self, layout: Layout, segment: Segment) -> None:
        """Use ``create`` or ``attach``."""
        self.layout = layout
        self.segment = segment

    @classmethod
    def create(cls, layout: Layout, segment: Segment) -> Self:
        """Writes the header into a fresh segment.

        Raises:
            SegmentError: The segment is smaller than the layout.
        """
        check_room(segment.buffer, layout.nbytes, "arena")
        write_header(segment.buffer, "arena", layout.describe())
        return cls(layout, segment)

    @classmethod
    def attach(cls, layout: Layout, segment: Segment) -> Self:
        """Checks that the segment was laid out by an equal layout of this build.

        Raises:
            SegmentError: It was not; the message says in what they differ.
        """
        check_header(segment.buffer, "arena", layout.describe())
        check_room(segment.buffer, layout.nbytes, "arena")
        return cls(layout, segment)

    def region(self, name: str) -> memoryview:
        """Writable view of a region, which keeps the mapping alive."""
        region = self.layout[name]
        return self.segment.buffer[region.offset : region.offset + region.nbytes]
