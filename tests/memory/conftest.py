"""Memory to build structures in, and child processes that never outlive their test."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator

import pytest

from fast_core.memory import Segment

Memory = Callable[[int], memoryview]


def new_memory(nbytes: int) -> memoryview:
    """Shared memory whose only user is the view returned, and whoever inherits it by fork."""
    with Segment.create(nbytes, backing="memfd") as segment:
        return segment.buffer


class Children:
    """Forked children; each runs one function and exits 0, or 1 after a traceback."""

    def __init__(self) -> None:
        self._living: set[int] = set()

    def start(self, body: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                body()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        self._living.add(pid)
        return pid

    def join(self, pid: int) -> int:
        """Exit code as ``subprocess`` has it: negative for a signal."""
        _, status = os.waitpid(pid, 0)
        self._living.discard(pid)
        return os.waitstatus_to_exitcode(status)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.join(pid)

    def stop_all(self) -> None:
        for pid in list(self._living):
            self.kill(pid)


@pytest.fixture
def memory() -> Memory:
    return new_memory


@pytest.fixture
def children() -> Iterator[Children]:
    children = Children()
    yield children
    children.stop_all()


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], float], None]:
    """Waits until a condition holds, for tests that watch other processes."""

    def wait(condition: Callable[[], bool], timeout_s: float) -> None:
        end_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end_s, f"did not happen within {timeout_s} s"
            time.sleep(0.001)

    return wait
