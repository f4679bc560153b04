from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from fast_core.errors import RingEmpty, RingFull, SegmentError, TransportError
from fast_core.memory import Ring

Memory = Callable[[int], memoryview]

HEAD, TAIL = 64, 128  # offsets of the counters in a ring's region


def new_ring(memory: Memory, capacity: int = 4, record_bytes: int = 8, start: int = 0) -> Ring:
    region = memory(Ring.nbytes(capacity, record_bytes))
    Ring.create(region, capacity, record_bytes)
    struct.pack_into("<Q", region, HEAD, start)
    struct.pack_into("<Q", region, TAIL, start)
    return Ring.attach(region)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def test_records_come_out_in_the_order_they_went_in(memory: Memory) -> None:
    ring = new_ring(memory)
    for value in range(4):
        assert ring.try_push(number(value))
    assert [ring.try_pop() for _ in range(5)] == [*map(number, range(4)), None]


@pytest.mark.parametrize("capacity", [1, 2, 3, 5, 8, 1000])
def test_full_ring_refuses_push_at_exactly_its_capacity(memory: Memory, capacity: int) -> None:
    ring = new_ring(memory, capacity)
    assert [ring.try_push(number(k)) for k in range(capacity + 1)] == [True] * capacity + [False]
    assert len(ring) == capacity
    assert ring.try_pop() == number(0)
    assert ring.try_push(number(7))


@pytest.mark.parametrize("capacity", [1, 2, 3, 7])
@pytest.mark.parametrize("start", [2**32 - 2, 2**64 - 3])
def test_order_holds_where_the_counters_wrap(memory: Memory, capacity: int, start: int) -> None:
    ring = new_ring(memory, capacity, start=start)
    consumer = ring
    pushed = popped = 0
    for _ in range(6):
        while ring.try_push(number(pushed)):
            pushed += 1
        assert pushed - popped == capacity
        while (record := consumer.try_pop()) is not None:
            assert record == number(popped)
            popped += 1
    assert pushed == popped == 6 * capacity


@pytest.mark.parametrize("record_bytes", [1, 7, 8, 9, 64])
def test_odd_record_sizes_are_kept_apart(memory: Memory, record_bytes: int) -> None:
    ring = new_ring(memory, 3, record_bytes)
    records = [bytes([value] * record_bytes) for value in range(1, 8)]
    for first in range(5):
        assert all(ring.try_push(record) for record in records[first : first + 3])
        assert [ring.try_pop() for _ in range(3)] == records[first : first + 3]


def test_record_of_another_size_is_refused_with_both_sizes(memory: Memory) -> None:
    ring = new_ring(memory)
    with pytest.raises(SegmentError, match="exactly 8 bytes; got 9"):
        ring.try_push(bytes(9))
    assert len(ring) == 0


@pytest.mark.parametrize("record_bytes", [1, 7, 24])
def test_every_place_is_aligned_to_eight_bytes(memory: Memory, record_bytes: int) -> None:
    ring = new_ring(memory, 3, record_bytes)
    for _ in range(5):
        place = ring.try_claim()
        assert place is not None
        assert np.frombuffer(place, np.uint8).ctypes.data % 8 == 0
        ring.commit()
        ring.try_pop()


def test_claim_that_is_never_committed_takes_no_place(memory: Memory) -> None:
    region = memory(Ring.nbytes(1, 8))
    dead, consumer = Ring.create(region, 1, 8), Ring.attach(region)
    for _ in range(3):
        assert dead.try_claim() is not None
    successor = Ring.attach(region)
    assert len(consumer) == 0
    assert successor.try_push(number(1))
    assert consumer.try_pop() == number(1)


def test_full_ring_gives_no_claim_and_empty_one_no_peek(memory: Memory) -> None:
    ring = new_ring(memory, 1)
    assert ring.try_peek() is None
    ring.try_push(number(1))
    assert ring.try_claim() is None


def test_peeked_record_keeps_its_place_until_release(memory: Memory) -> None:
    ring = new_ring(memory, 1)
    ring.try_push(number(3))
    seen = ring.try_peek()
    assert seen is not None and bytes(seen) == number(3)
    assert not ring.try_push(number(4))
    ring.release()
    assert ring.try_push(number(4))


def test_records_are_written_and_read_as_arrays_in_place(memory: Memory) -> None:
    ring = new_ring(memory, 2, 24)
    place = ring.try_claim()
    assert place is not None
    np.frombuffer(place, np.float64)[:] = [1.0, 2.0, 3.0]
    ring.commit()
    seen = ring.try_peek()
    assert seen is not None
    assert np.frombuffer(seen, np.float64).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "misuse",
    [
        lambda ring: ring.commit(),
        lambda ring: ring.release(),
        lambda ring: (ring.try_claim(), ring.try_push(number(1))),
        lambda ring: (ring.try_push(number(1)), ring.try_peek(), ring.try_pop()),
    ],
)
def test_calls_out_of_turn_are_refused(memory: Memory, misuse: Callable[[Ring], object]) -> None:
    with pytest.raises(TransportError):
        misuse(new_ring(memory))


def test_zero_timeout_raises_at_once_and_loses_nothing(memory: Memory) -> None:
    ring = new_ring(memory, 1)
    with pytest.raises(RingEmpty, match="1 records of 8 bytes stayed empty for 0 s"):
        ring.pop(timeout_s=0)
    ring.push(number(1), 0)
    with pytest.raises(RingFull, match="stayed full"):
        ring.push(number(2), timeout_s=0.0)
    with pytest.raises(TimeoutError):
        ring.claim(timeout_s=0)
    assert ring.pop(0) == number(1)
    with pytest.raises(RingEmpty):
        ring.peek(timeout_s=0)


@pytest.mark.parametrize("timeout_s", [-1, float("nan")])
def test_timeout_that_makes_no_sense_is_refused(memory: Memory, timeout_s: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        new_ring(memory).pop(timeout_s=timeout_s)


def test_wrong_call_names_the_right_one(memory: Memory) -> None:
    ring = new_ring(memory)
    with pytest.raises(TypeError, match=r"pop\(timeout_s=None\)"):
        ring.pop(timeout=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"push\(record, timeout_s=None\)"):
        ring.push()  # type: ignore[call-arg]


def test_successor_of_a_consumer_reads_what_was_not_given_back(memory: Memory) -> None:
    region = memory(Ring.nbytes(3, 8))
    producer, dead = Ring.create(region, 3, 8), Ring.attach(region)
    for value in range(3):
        producer.try_push(number(value))
    assert dead.try_pop() == number(0)
    assert dead.try_peek() is not None
    successor = Ring.attach(region)
    assert [successor.try_pop() for _ in range(3)] == [number(1), number(2), None]
    assert producer.try_push(number(9))
    assert successor.try_pop() == number(9)


def test_more_used_than_capacity_counts_as_full_and_as_damage(memory: Memory) -> None:
    region = memory(Ring.nbytes(4, 8))
    ring = Ring.create(region, 4, 8)
    assert all(ring.try_push(number(k)) for k in range(4))  # so that it looks at tail again
    struct.pack_into("<Q", region, TAIL, 100)  # ahead of head: used wraps to 2**64 - 96
    assert not ring.try_push(number(1))
    assert ring.try_claim() is None
    with pytest.raises(SegmentError, match="damaged"):
        ring.try_pop()
    with pytest.raises(SegmentError, match="damaged"):
        ring.try_peek()
    assert len(ring) <= ring.capacity


def test_attach_refuses_counters_further_apart_than_the_capacity(memory: Memory) -> None:
    region = memory(Ring.nbytes(4, 8))
    Ring.create(region, 4, 8)
    struct.pack_into("<Q", region, HEAD, 5)
    with pytest.raises(SegmentError, match=r"head 5 and tail 0 .* capacity of 4"):
        Ring.attach(region)


def test_misaligned_and_read_only_memory_is_refused(memory: Memory) -> None:
    region = memory(4096)
    with pytest.raises(SegmentError, match="aligned to 64"):
        Ring.create(region[8:], 4, 8)
    Ring.create(region, 4, 8)
    with pytest.raises(BufferError):
        Ring.attach(region.toreadonly())


@pytest.mark.parametrize(("capacity", "record_bytes"), [(0, 8), (2**31 + 1, 8), (4, 0), (4, 2**41)])
def test_sizes_that_make_no_ring_are_refused(capacity: int, record_bytes: int) -> None:
    with pytest.raises(SegmentError, match="a ring's"):
        Ring.nbytes(capacity, record_bytes)


def test_ring_keeps_its_memory_alive(memory: Memory) -> None:
    ring = new_ring(memory)  # nothing else refers to the mapping
    ring.try_push(number(4))
    seen = ring.try_peek()
    del ring
    assert seen is not None and bytes(seen) == number(4)
