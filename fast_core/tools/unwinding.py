"""Commands that tidy up when they are interrupted."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from fast_core.system import forks


@contextmanager
def unwinding() -> Iterator[None]:
    """`KeyboardInterrupt` with the signal's number, where `fastloop` ends at once on signals."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: forks.take(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            forks.give_back(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)
