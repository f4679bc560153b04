"""Single-producer single-consumer ring of fixed-size records between processes."""

from __future__ import annotations

from typing import Self

from fast_core.errors import SegmentError
from fast_core.memory import _native


class Ring(_native.Ring):
    """Records of one fixed size, in order, each delivered once, none overwritten.

    Producer: ``try_push``, or without a copy ``try_claim`` (a writable view of the next place),
    then ``commit``. Consumer: ``try_pop``, or without a copy ``try_peek``, then ``release``; a
    view is only good until then. Claiming or peeking twice gives the same place. ``len`` is the
    number of records that wait.

    ``push``, ``claim``, ``pop`` and ``peek`` wait up to ``timeout_s`` seconds
    (None: for ever), without the GIL and open to signals, and then raise ``RingFull`` or
    ``RingEmpty``; nothing is lost by that. It makes no difference who attached first.

    Concurrency:
        The producer writes ``head`` and the data doorbell, the consumer ``tail`` and the space
        doorbell. The release store of ``head`` in commit or push publishes the record; that of
        ``tail`` in release or pop gives its place back. A producer killed at any point leaves an
        unpublished record, a consumer leaves the record unread; neither stops the other, and
        who attaches in its place goes on there. One thread at a time may use each side.

    Raises:
        SegmentError: from attach, when the region holds no ring of this build or a damaged one;
            from pushes, when a record has the wrong size.
        TransportError: on commit without claim, push while a claim is open, and the like.
    """

    __slots__ = ()

    @staticmethod
    def nbytes(capacity: int, record_bytes: int) -> int:
        """Bytes of the region; places are a power of two, so capacities that are one fit best."""
        return _native.ring_nbytes(capacity, record_bytes)

    @classmethod
    def create(cls, memory: memoryview, capacity: int, record_bytes: int) -> Self:
        """Makes an empty ring in ``memory`` and attaches to it.

        Args:
            memory: Region of at least ``nbytes`` bytes, aligned to 64.
            capacity: Records it holds, 1 to 2**31.
            record_bytes: Size of each record.
        """
        _native.ring_create(memory, capacity, record_bytes)
        return cls(memory)

    @classmethod
    def attach(cls, memory: memoryview, *shape: int) -> Self:
        """Attaches to the ring in ``memory``.

        Raises:
            SegmentError: It holds none, or one of another ``shape``, its capacity and the size of
                its records, if that is given.
        """
        ring = cls(memory)
        found = ring.capacity, ring.record_bytes
        if shape not in ((), found):
            raise SegmentError(
                f"the ring holds {found[0]} records of {found[1]} bytes; this node has {shape}. "
                "All nodes of a run must use one configuration"
            )
        return ring

    def published(self) -> int:
        """Records that are complete and were not taken."""
        return len(self)
