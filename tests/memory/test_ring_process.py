"""Rings between real processes: waiting, order, torn records, and death at any point."""

from __future__ import annotations

import os
import signal
import struct
import threading
import time
import zlib
from collections.abc import Callable

import pytest

from fast_core.errors import RingEmpty, RingFull
from fast_core.memory import Doorbell, Ring, Trace
from tests.forms import slow_but
from tests.memory.conftest import Memory

pytestmark = pytest.mark.process

Eventually = Callable[[Callable[[], bool], float], None]


def new_ring(memory: Memory, capacity: int, record_bytes: int = 8) -> Ring:
    return Ring.create(memory(Ring.nbytes(capacity, record_bytes)), capacity, record_bytes)


def number(value: int) -> bytes:
    return struct.pack("<q", value)


def test_full_ring_raises_after_the_time_asked_and_loses_nothing(memory: Memory) -> None:
    """RING-09, scaled from 0.5 s."""
    ring = new_ring(memory, 1)
    ring.push(number(1))
    begin_s = time.monotonic()
    with pytest.raises(RingFull):
        ring.push(number(2), timeout_s=0.25)
    assert 0.2 < time.monotonic() - begin_s < 0.45
    assert ring.pop() == number(1)
    ring.push(number(2), timeout_s=0.25)
    assert ring.pop() == number(2)


def test_push_without_timeout_waits_for_space(memory: Memory, children) -> None:
    """RING-09, scaled from 12 s; longer than one slice of sleep."""
    ring = new_ring(memory, 1)
    ring.push(number(1))

    def consume() -> None:
        time.sleep(0.5)
        assert ring.pop() == number(1)

    pid = children.start(consume)
    begin_s = time.monotonic()
    ring.push(number(2), timeout_s=None)
    assert time.monotonic() - begin_s > 0.4
    assert children.join(pid) == 0
    assert ring.pop() == number(2)


def test_producer_that_came_first_blocks_until_a_consumer_comes(memory: Memory, children) -> None:
    """RING-10, scaled from 3 s."""
    region = memory(Ring.nbytes(8, 8))
    ring = Ring.create(region, 8, 8)
    pid = children.start(lambda: [ring.push(number(k)) for k in range(20)])
    time.sleep(0.3)
    consumer = Ring.attach(region)
    assert [consumer.pop(timeout_s=5) for _ in range(20)] == [number(k) for k in range(20)]
    assert children.join(pid) == 0


def test_sleeper_is_woken_at_once_and_costs_no_cpu(memory: Memory, children) -> None:
    """RING-08: a blocked node sleeps, and wakes by the bell, not by the end of its slice."""
    ring, answer = new_ring(memory, 8), new_ring(memory, 8)

    def wait_for_a_second() -> None:
        begin = time.process_time()
        ring.pop()
        cpu_s = time.process_time() - begin
        answer.push(struct.pack("<d", cpu_s))
        while ring.pop() != number(-1):
            answer.push(number(0))

    pid = children.start(wait_for_a_second)
    time.sleep(1.0)
    ring.push(number(0))
    (cpu_s,) = struct.unpack("<d", answer.pop(timeout_s=5))
    assert cpu_s < 0.05
    trips_s = []
    for _ in range(20):
        time.sleep(0.01)
        begin_s = time.monotonic()
        ring.push(number(1))
        answer.pop(timeout_s=5)
        trips_s.append(time.monotonic() - begin_s)
    assert sorted(trips_s)[10] < 0.05
    ring.push(number(-1))
    assert children.join(pid) == 0


@pytest.mark.parametrize("seconds", slow_but([0.5], [0.5, 2.0]))
def test_many_writers_on_few_cores_starve_nobody(memory: Memory, children, seconds: float) -> None:
    """RING-08, scaled: 16 writers, one reader with one bell."""
    bell = Doorbell.create(memory(Doorbell.nbytes()))
    rings = [new_ring(memory, 4) for _ in range(16)]
    pushed = Trace.create(memory(Trace.nbytes(16)), 16).words
    end_s = time.monotonic() + seconds

    def write(index: int) -> None:
        value = 0
        while value == 0 or time.monotonic() < end_s:
            rings[index].push(number(value), timeout_s=5)
            bell.ring()
            value += 1
        pushed[index] = value

    pids = [children.start(lambda index=index: write(index)) for index in range(16)]
    received = [0] * 16
    while True:
        seen = bell.value()
        living = not all(pushed.tolist())  # a starved writer pushes late
        for index, ring in enumerate(rings):
            while (record := ring.try_pop()) is not None:
                assert record == number(received[index])
                received[index] += 1
        if not living:
            break
        bell.wait(seen, timeout_s=0.1)
    assert [children.join(pid) for pid in pids] == [0] * 16
    assert pushed.tolist() == received
    assert min(received) > 0  # and nobody waited for 5 s, which ends a writer


@pytest.mark.parametrize("seconds", slow_but([0.5], [0.5, 2.0]))
def test_no_torn_record_among_four_pairs(memory: Memory, children, seconds: float) -> None:
    """RING-01, scaled: 64 KiB of one repeated id and its CRC, 4 writers and 4 readers."""
    record_bytes = 64 * 1024 + 8
    end_s = time.monotonic() + seconds

    def write(ring: Ring) -> None:
        value = 0
        while value < 11 or time.monotonic() < end_s:
            value += 1
            body = number(value) * (8 * 1024)
            ring.push(body + number(zlib.crc32(body)), timeout_s=5)
        ring.push(bytes(record_bytes), timeout_s=5)

    def read(ring: Ring) -> None:
        expected = 0
        while True:
            record = ring.pop(timeout_s=5)
            value, crc = struct.unpack("<q", record[:8])[0], record[-8:]
            if value == 0:
                break
            expected += 1
            assert value == expected
            assert record[:-8] == number(value) * (8 * 1024)
            assert crc == number(zlib.crc32(record[:-8]))
        assert expected > 10

    rings = [new_ring(memory, 3, record_bytes) for _ in range(4)]
    pids = [children.start(lambda r=r, f=f: f(r)) for r in rings for f in (write, read)]
    assert [children.join(pid) for pid in pids] == [0] * 8


def test_killed_reader_stops_nobody(memory: Memory, children, eventually: Eventually) -> None:
    """RING-03: killed while it holds a record, 20 times; a successor has both within a second."""
    region = memory(Ring.nbytes(2, 8))
    producer = Ring.create(region, 2, 8)

    def peek_and_stay() -> None:
        ring = Ring.attach(region)
        ring.peek(timeout_s=5)
        time.sleep(60)

    for _ in range(20):
        producer.push(number(1), timeout_s=1)
        producer.push(number(2), timeout_s=1)
        pid = children.start(peek_and_stay)
        time.sleep(0.01)
        children.kill(pid)
        with pytest.raises(RingFull):
            producer.push(number(3), timeout_s=0)
        successor = Ring.attach(region)
        assert [successor.pop(timeout_s=1) for _ in range(2)] == [number(1), number(2)]
    producer.push(number(4), timeout_s=1)
    assert Ring.attach(region).pop(timeout_s=1) == number(4)


def test_signal_handler_runs_in_a_wait_that_then_goes_on(memory: Memory) -> None:
    ring = new_ring(memory, 1)
    ran: list[float] = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: ran.append(time.monotonic()))
    begin_s = time.monotonic()
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(RingEmpty):
            ring.pop(timeout_s=0.5)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)
    assert ran and ran[0] - begin_s < 0.4
    assert time.monotonic() - begin_s >= 0.5


def test_exception_of_a_signal_handler_ends_the_wait(memory: Memory) -> None:
    bell = Doorbell.create(memory(Doorbell.nbytes()))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        begin_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            bell.wait(bell.value(), timeout_s=10)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)
    assert time.monotonic() - begin_s < 2


def test_other_threads_run_while_one_waits(memory: Memory) -> None:
    ring, back = new_ring(memory, 1), new_ring(memory, 1)

    def answer() -> None:
        back.push(ring.pop(timeout_s=5))

    thread = threading.Thread(target=answer)
    thread.start()
    ring.push(number(6))
    assert back.pop(timeout_s=5) == number(6)
    thread.join()


def test_record_of_a_producer_killed_before_it_rang_is_found(memory: Memory, children) -> None:
    """A sleeper looks up at the end of each slice, without any bell."""
    region = memory(Ring.nbytes(2, 8))
    ring = Ring.create(region, 2, 8)

    def publish_silently() -> None:
        time.sleep(0.1)
        region[320:328] = number(7)
        region[64:72] = number(1)  # head, and no ring of the bell

    pid = children.start(publish_silently)
    begin_s = time.monotonic()
    assert ring.pop(timeout_s=5) == number(7)
    assert time.monotonic() - begin_s < 1
    assert children.join(pid) == 0


def test_ring_of_somebody_killed_before_the_wake_call_is_found(memory: Memory, children) -> None:
    region = memory(Doorbell.nbytes())
    bell = Doorbell.create(region)
    seen = bell.value()

    def add_without_waking() -> None:
        time.sleep(0.1)
        region[64:68] = struct.pack("<I", seen + 1)

    pid = children.start(add_without_waking)
    begin_s = time.monotonic()
    assert bell.wait(seen, timeout_s=5)
    assert time.monotonic() - begin_s < 1
    assert children.join(pid) == 0
