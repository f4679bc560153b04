"""What rings refuse, and how they lie in memory; `test_ring_model` has what comes out of them."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

from fast_core.errors import RingEmpty, RingFull, SegmentError, TransportError
from fast_core.memory import Ring
from tests.memory.conftest import Memory

HEAD, TAIL = 64, 128  # offsets of the counters in a ring's region


def new_ring(memory: Memory, capacity: int = 4, record_bytes: int = 8) -> Ring:
    return Ring.create(memory(Ring.nbytes(capacity, record_bytes)), capacity, record_bytes)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


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
