"""Commands that tidy up when they are interrupted."""

from __future__ import annotations

import signal
from contextlib import AbstractContextManager

from fast_core.system import forks


def unwinding() -> AbstractContextManager[None]:
    """`KeyboardInterrupt` with the signal's number, where `fastloop` ends at once on signals."""
    return forks.handling(_interrupt, signal.SIGINT, signal.SIGTERM)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)
