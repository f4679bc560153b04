"""The weight board between processes: no torn version, and death of the writer."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

from fast_core.memory import EvaluationSlot, WeightBoard
from tests.memory.conftest import Memory

pytestmark = pytest.mark.process


@pytest.mark.parametrize("count", [3, 1000, 100_000])
def test_readers_never_see_a_mixture_of_versions(memory: Memory, children, count: int) -> None:
    nbytes = count * 8
    region = memory(WeightBoard.nbytes(nbytes))
    board = WeightBoard.create(region, nbytes)
    end_s = time.monotonic() + 0.5

    def write() -> None:
        payload, version = np.zeros(count, np.int64), 0
        while True:
            payload[:] = version
            board.publish(version, payload)
            version += 1

    def read() -> None:
        reader, target = WeightBoard.attach(region, nbytes), np.zeros(count, np.int64)
        version = seen = 0
        while time.monotonic() < end_s or seen < 10:  # a busy machine may take longer
            found = reader.read_into(target, newer_than=version)
            assert found >= version
            if found > version:
                version, seen = found, seen + 1
                assert (target == version).all()

    writer, *readers = [children.start(body) for body in (write, read, read)]
    assert [children.join(pid) for pid in readers] == [0, 0]
    children.kill(writer)


def test_killed_writer_leaves_the_last_complete_version(memory: Memory, children) -> None:
    nbytes = 8 * 50_000
    region = memory(WeightBoard.nbytes(nbytes))
    reader, target = WeightBoard.create(region, nbytes), np.zeros(50_000, np.int64)

    def write(version: int) -> None:
        board = WeightBoard.attach(region, nbytes)
        while True:
            version += 1
            board.publish(version, np.full(50_000, version))

    version = 0
    for _ in range(20):
        pid = children.start(lambda version=version: write(version))
        while reader.version() <= version:
            pass
        children.kill(pid)
        found = reader.read_into(target, newer_than=version)
        assert found > version
        assert (target == found).all()
        version = found


def test_evaluator_that_dies_leaves_the_snapshot_to_its_successor(memory: Memory, children) -> None:
    region = memory(EvaluationSlot.nbytes(64))
    slot = EvaluationSlot.create(region, 64)
    slot.write(3, 1000, b"x" * 64)

    def read_and_die() -> None:
        EvaluationSlot.attach(region, 64).read_into(bytearray(64))
        os.kill(os.getpid(), signal.SIGKILL)

    assert children.join(children.start(read_and_die)) == -signal.SIGKILL
    target, successor = bytearray(64), EvaluationSlot.attach(region, 64)
    assert successor.read_into(target) == (3, 1000)
    assert bytes(target) == b"x" * 64
    successor.release(3)
    slot.write(4, 2000, b"y" * 64)
