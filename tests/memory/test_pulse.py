"""A count that moves for as long as its process runs, whoever has the interpreter lock."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fast_core.errors import SegmentError
from fast_core.memory import Pulse, Trace
from tests.memory.conftest import Memory
from tests.process.harness import eventually

PERIOD_S = 0.002


@pytest.fixture
def word(memory: Memory) -> memoryview:
    return Trace.create(memory(Trace.nbytes(1)), 1).words


@pytest.fixture
def pulse(word: memoryview) -> Iterator[Pulse]:
    pulse = Pulse(word, PERIOD_S)
    yield pulse
    pulse.close()


def moves(word: memoryview, what: str = "the count") -> None:
    before = word[0]
    eventually(lambda: word[0] > before, what)


def tasks() -> int:
    return len(os.listdir("/proc/self/task"))


def test_counts_until_closed(word: memoryview) -> None:
    before = tasks()
    pulse = Pulse(word, PERIOD_S)
    moves(word)
    assert tasks() == before + 1
    pulse.close()
    assert tasks() == before
    last = word[0]
    time.sleep(10 * PERIOD_S)
    assert word[0] == last
    pulse.close()


def test_successor_goes_on_from_the_last_count(word: memoryview) -> None:
    word[0] = 1000
    pulse = Pulse(word, PERIOD_S)
    eventually(lambda: word[0] > 1001, "the count")
    pulse.close()


def test_closes_with_its_last_reference(word: memoryview) -> None:
    before = tasks()
    Pulse(word, PERIOD_S)
    assert tasks() == before


def test_counts_while_a_call_holds_the_interpreter_lock(word: memoryview, pulse: Pulse) -> None:
    moves(word)
    python: list[int] = []
    counter = threading.Thread(target=lambda: python.append(time.monotonic_ns()))
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(10)
    try:
        counter.start()
        python.clear()
        before = word[0]
        ctypes.PyDLL(None).usleep(200_000)
        assert not python, "no thread of Python's ran meanwhile"
        assert word[0] > before + 5
    finally:
        sys.setswitchinterval(switch_s)
        counter.join()


def test_copy_that_is_forked_does_not_count_and_leaves_as_it_likes(
    word: memoryview, pulse: Pulse
) -> None:
    """As environments fork simulators: in the middle of a count, too."""
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            alone = tasks() == 1
            pulse.close()  # not its own: nothing to wait for
            os._exit(0 if alone else 1)
        assert os.waitpid(pid, 0)[1] == 0
    moves(word, "the count of the original")


def test_stopped_process_stops_counting(word: memoryview) -> None:
    pid = os.fork()
    if pid == 0:
        Pulse(word, PERIOD_S)  # dropped at once: the next one is kept
        kept = Pulse(word, PERIOD_S)
        signal.pause()
        os._exit(int(kept is None))
    try:
        moves(word, "the count of another process")
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        last = word[0]
        time.sleep(20 * PERIOD_S)
        assert word[0] == last
        os.kill(pid, signal.SIGCONT)
        moves(word, "the count of one that goes on")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_takes_no_signal_from_the_main_thread(word: memoryview, pulse: Pulse) -> None:
    moves(word)
    thread = next(
        entry
        for entry in Path("/proc/self/task").iterdir()
        if (entry / "comm").read_text() == "pulse\n"
    )
    lines = dict(line.split(":\t") for line in (thread / "status").read_text().splitlines())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        assert int(lines["SigBlk"], 16) >> (number - 1) & 1


@pytest.mark.parametrize("period_s", [0.0, -1.0, float("nan"), 1e9])
def test_refuses_a_period_that_is_none(word: memoryview, period_s: float) -> None:
    with pytest.raises(ValueError, match="above 0 and below 3600"):
        Pulse(word, period_s)


def test_refuses_memory_that_is_no_word(memory: Memory) -> None:
    with pytest.raises(SegmentError):
        Pulse(memory(64)[:4], PERIOD_S)
