"""Ring against a plain list, with any interleaving of calls and crashes."""

from __future__ import annotations

import struct

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from fast_core.memory import Ring, Segment

STARTS = st.sampled_from([0, 2**32 - 2, 2**64 - 1, 2**64 - 4]) | st.integers(0, 2**64 - 1)


class RingAgainstList(RuleBasedStateMachine):
    @initialize(
        capacity=st.sampled_from([1, 2, 3, 5, 8]),
        record_bytes=st.sampled_from([1, 7, 8, 24]),
        start=STARTS,
    )
    def create(self, capacity: int, record_bytes: int, start: int) -> None:
        self.capacity, self.record_bytes = capacity, record_bytes
        nbytes = Ring.nbytes(capacity, record_bytes)
        with Segment.create(nbytes, backing="memfd") as segment:
            self.region = segment.buffer
        Ring.create(self.region, capacity, record_bytes)
        for counter in (64, 128):  # head and tail, near where they wrap
            struct.pack_into("<Q", self.region, counter, start)
        self.producer = Ring.attach(self.region)
        self.consumer = Ring.attach(self.region)
        self.queued: list[bytes] = []
        self.made = 0
        self.claimed: memoryview | None = None
        self.peeked: memoryview | None = None

    def new_record(self) -> bytes:
        self.made += 1
        return bytes([self.made % 251 + 1]) * self.record_bytes

    def accept(self, record: bytes) -> None:
        self.queued.append(record)

    def take(self, count: int) -> bytes:
        taken, self.queued = self.queued[:count], self.queued[count:]
        return b"".join(taken)

    @precondition(lambda self: self.claimed is None)
    @rule()
    def push(self) -> None:
        record = self.new_record()
        room = len(self.queued) < self.capacity
        assert self.producer.try_push(record) == room
        if room:
            self.accept(record)

    @rule()
    def claim(self) -> None:
        place = self.producer.try_claim()
        assert (place is not None) == (len(self.queued) < self.capacity)
        self.claimed = place

    @precondition(lambda self: self.claimed is not None)
    @rule(whole=st.booleans())
    def write_claimed(self, whole: bool) -> None:
        """Writes that are never committed must never be seen."""
        assert self.claimed is not None
        self.claimed[: self.record_bytes if whole else self.record_bytes // 2] = bytes(
            self.record_bytes if whole else self.record_bytes // 2
        )

    @precondition(lambda self: self.claimed is not None)
    @rule()
    def commit(self) -> None:
        assert self.claimed is not None
        record = self.new_record()
        self.claimed[:] = record
        self.producer.commit()
        self.claimed = None
        self.accept(record)

    @precondition(lambda self: self.peeked is None)
    @rule()
    def pop(self) -> None:
        assert self.consumer.try_pop() == (self.take(1) or None)

    @rule()
    def peek(self) -> None:
        self.peeked = self.consumer.try_peek()
        assert (self.peeked is not None) == bool(self.queued)
        if self.peeked is not None:
            assert bytes(self.peeked) == self.queued[0]

    @precondition(lambda self: self.peeked is not None)
    @rule()
    def release(self) -> None:
        assert self.peeked is not None
        assert bytes(self.peeked) == self.take(1)
        self.consumer.release()
        self.peeked = None

    @rule()
    def producer_dies(self) -> None:
        self.claimed = None
        self.producer = Ring.attach(self.region)

    @rule()
    def consumer_dies(self) -> None:
        self.peeked = None
        self.consumer = Ring.attach(self.region)

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "region"):
            return
        assert len(self.producer) == len(self.consumer) == len(self.queued)


TestRingAgainstList = RingAgainstList.TestCase
TestRingAgainstList.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, database=None
)
