"""Ring against ``multiprocessing.Queue``, a bare memcpy, and a bare semaphore pair.

    python -m benchmarks.ring [--quick]

Two processes. Messages per second are counted at the receiver, one push and one pop per message,
the payload copied in and out. The bare memcpy makes the same copies through the same touched
memory in the same two processes with no hand-over at all. The round trip's receivers sleep.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable

from benchmarks.measure import alternate, print_result
from fast_core.memory import Ring, Segment, _native

KIB = 1024
TARGET = 10.0
# Messages of one measurement: about half a second of ring, and of queue.
COUNTS = {64: (2_000_000, 60_000), 4 * KIB: (600_000, 40_000), 100 * KIB: (40_000, 5_000)}
LARGE_BYTES = 4 * KIB * KIB
LARGE_COUNT = 300
LARGE_CAPACITY = 4
TRIPS = 20_000
ROUNDS, QUICK_ROUNDS = 11, 5

# Children inherit segments, queues and semaphores as they are.
_context = multiprocessing.get_context("fork")


def beside(child: Callable[[], None], parent: Callable[[], None]) -> float:
    """Seconds from a common start until both are through, each in its process."""
    ready, start = _context.Semaphore(0), _context.Semaphore(0)

    def run() -> None:
        ready.release()
        start.acquire()
        child()

    process = _context.Process(target=run)
    process.start()
    ready.acquire()
    begin_s = time.perf_counter()
    start.release()
    parent()
    # The receiver ends last, whichever side it is; joining would add the exit of the child.
    seconds = time.perf_counter() - begin_s
    process.join()
    return seconds


def fresh_ring(capacity: int, record_bytes: int) -> Ring:
    """A ring in a touched segment of its own."""
    with Segment.create(Ring.nbytes(capacity, record_bytes)) as segment:
        segment.touch()
        return Ring.create(segment.buffer, capacity, record_bytes)


def queue_rate(record_bytes: int, count: int) -> float:
    """Messages per second through a multiprocessing queue."""
    queue = _context.Queue(maxsize=1024)
    record = bytes(record_bytes)

    def send() -> None:
        for _ in range(count):
            queue.put(record)
        queue.close()
        queue.join_thread()

    def receive() -> None:
        for _ in range(count):
            queue.get()

    return count / beside(send, receive)


def ring_rate(record_bytes: int, count: int, capacity: int) -> float:
    """Messages per second through a ring, one by one."""
    ring = fresh_ring(capacity, record_bytes)
    record = bytes(record_bytes)

    def send() -> None:
        for _ in range(count):
            ring.push(record)

    def receive() -> None:
        for _ in range(count):
            ring.pop()

    return count / beside(send, receive)


def large_ring_rate() -> float:
    """4 MiB messages per second through a ring, into memory that was touched before."""
    ring = fresh_ring(LARGE_CAPACITY, LARGE_BYTES)
    record, target = bytearray(b"x" * LARGE_BYTES), bytearray(b"y" * LARGE_BYTES)

    def send() -> None:
        for _ in range(LARGE_COUNT):
            ring.push(record)

    def receive() -> None:
        for _ in range(LARGE_COUNT):
            _native.copy(target, ring.peek())
            ring.release()

    return LARGE_COUNT / beside(send, receive)


def memcpy_rate() -> float:
    """The same copies with no hand-over: the slower of the two processes counts."""
    segment = Segment.create(LARGE_CAPACITY * LARGE_BYTES)
    segment.touch()
    slots = [segment.buffer[k * LARGE_BYTES : (k + 1) * LARGE_BYTES] for k in range(LARGE_CAPACITY)]
    record, target = bytearray(b"x" * LARGE_BYTES), bytearray(b"y" * LARGE_BYTES)
    done = _context.Semaphore(0)

    def send() -> None:
        for k in range(LARGE_COUNT):
            _native.copy(slots[k % LARGE_CAPACITY], record)
        done.release()

    def receive() -> None:
        for k in range(LARGE_COUNT):
            _native.copy(target, slots[k % LARGE_CAPACITY])
        done.acquire()

    return LARGE_COUNT / beside(send, receive)


def ring_trip_us() -> float:
    """Microseconds there and back between two sleepers, over a pair of rings."""
    there, back = fresh_ring(8, 64), fresh_ring(8, 64)
    record = bytes(64)

    def echo() -> None:
        for _ in range(TRIPS):
            back.push(there.pop())

    def call() -> None:
        for _ in range(TRIPS):
            there.push(record)
            back.pop()

    return beside(echo, call) / TRIPS * 1e6


def semaphore_trip_us() -> float:
    """The same over a bare pair of POSIX semaphores."""
    there, back = _context.Semaphore(0), _context.Semaphore(0)

    def echo() -> None:
        for _ in range(TRIPS):
            there.acquire()
            back.release()

    def call() -> None:
        for _ in range(TRIPS):
            there.release()
            back.acquire()

    return beside(echo, call) / TRIPS * 1e6


def main() -> None:
    """Measures everything and prints the last line."""
    parser = argparse.ArgumentParser(description="Ring against queue, memcpy and semaphores.")
    parser.add_argument("--quick", action="store_true", help="five rounds instead of eleven")
    rounds = QUICK_ROUNDS if parser.parse_args().quick else ROUNDS
    medians: dict[str, float] = {}
    ratios: dict[int, float] = {}
    for nbytes, (ring_count, queue_count) in COUNTS.items():
        capacity = max(8, min(1024, KIB * KIB // nbytes))  # a ring that fits the caches
        found = alternate(
            rounds,
            ring=lambda: ring_rate(nbytes, ring_count, capacity),  # noqa: B023 (called at once)
            queue=lambda: queue_rate(nbytes, queue_count),  # noqa: B023
        )
        ratios[nbytes] = found["ring"] / found["queue"]
        medians |= {f"{kind}_{nbytes}_per_s": round(rate) for kind, rate in found.items()}
        print(
            f"{nbytes} B: ring {found['ring']:,.0f}/s, queue {found['queue']:,.0f}/s, "
            f"ratio {ratios[nbytes]:.1f}"
        )
    large = alternate(rounds, ring=large_ring_rate, memcpy=memcpy_rate)
    trip = alternate(rounds, ring=ring_trip_us, semaphore=semaphore_trip_us)
    memcpy_ratio, trip_ratio = large["ring"] / large["memcpy"], trip["ring"] / trip["semaphore"]
    print(
        f"4 MiB: ring {large['ring']:,.0f}/s, bare memcpy {large['memcpy']:,.0f}/s, "
        f"ratio {memcpy_ratio:.2f} (target 0.8)"
    )
    print(
        f"round trip: ring {trip['ring']:.1f} us, semaphores {trip['semaphore']:.1f} us, "
        f"ratio {trip_ratio:.2f} (target at most 2)"
    )
    print_result(
        "ring",
        min(ratios[64], ratios[4 * KIB]),
        TARGET,
        **medians,
        ratio_100KiB=round(ratios[100 * KIB], 2),
        ring_4MiB_per_s=round(large["ring"]),
        memcpy_4MiB_per_s=round(large["memcpy"]),
        memcpy_ratio=round(memcpy_ratio, 3),
        memcpy_target=0.8,
        ring_trip_us=round(trip["ring"], 2),
        semaphore_trip_us=round(trip["semaphore"], 2),
        trip_ratio=round(trip_ratio, 3),
        trip_target=2.0,
    )


if __name__ == "__main__":
    main()
