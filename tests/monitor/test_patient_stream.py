from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

from fast_core.monitor.patient_stream import PatientStream


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield reading, stream
    os.close(reading)


def fill(stream: TextIO) -> None:
    os.set_blocking(stream.fileno(), False)
    try:
        while True:
            os.write(stream.fileno(), b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(stream.fileno(), True)


def test_text_passes_whole(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    PatientStream(stream).write("env steps 1\n" * 1000)
    assert os.read(reading, 1 << 20) == b"env steps 1\n" * 1000


def test_text_that_nobody_takes_is_dropped_and_counted(pipe: tuple[int, TextIO]) -> None:
    _, stream = pipe
    fill(stream)
    patient = PatientStream(stream, patience_s=0.01)
    begun_s = time.monotonic()
    for _ in range(1000):
        patient.write("line\n")
    assert time.monotonic() - begun_s < 5  # an ordinary write would never return
    assert patient.dropped == 1000


def test_last_words_wait_for_a_slow_reader(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    fill(stream)
    patient = PatientStream(stream, patience_s=0.0)
    patient.write("lost\n")
    reader = threading.Timer(0.05, lambda: os.read(reading, 1 << 20))
    reader.start()
    patient.insist(10.0)
    patient.write("last words\n")
    reader.join()
    assert os.read(reading, 1 << 20) == b"last words\n"
    assert patient.dropped == 1


def test_line_after_a_cut_one_begins_on_a_line_of_its_own(pipe: tuple[int, TextIO]) -> None:
    reading, stream = pipe
    fill(stream)
    os.read(reading, 4096)
    patient = PatientStream(stream, patience_s=0.0)
    patient.write("a" * 8192)
    os.read(reading, 1 << 20)
    patient.write("next\n")
    assert os.read(reading, 1 << 20).endswith(b"\nnext\n")


def test_terminal_with_a_little_room_does_not_block() -> None:
    """A terminal is called writable when one byte fits; an ordinary write then blocks."""
    main, terminal = os.openpty()
    with os.fdopen(terminal, "w", encoding="utf-8") as stream:
        os.set_blocking(main, False)
        patient = PatientStream(stream, patience_s=0.01)
        fill(stream)
        os.read(main, 1)
        begun_s = time.monotonic()
        for _ in range(20):
            patient.write("x" * 5000)
        assert time.monotonic() - begun_s < 5
        assert patient.dropped > 0
        assert os.get_blocking(stream.fileno())  # the shell shares it
        patient.close()
    os.close(main)
