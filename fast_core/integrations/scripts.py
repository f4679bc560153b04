"""A script of a host's users, unchanged, run in this process as Python would run it."""

from __future__ import annotations

import runpy
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast_core.system import forks

_INTERRUPTED = 130  # 128 + SIGINT, what shells expect after Ctrl-C


def status_of(work: Callable[[], object]) -> int:
    """The status that Python would end with if ``work`` were its script."""
    try:
        work()
    except KeyboardInterrupt:
        print("fastloop: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


def run_as_main(script: Path) -> dict[str, Any]:
    """Run it; returns its names."""
    return runpy.run_path(str(script), run_name="__main__")


@contextmanager
def as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Arguments, search path and Ctrl-C as the script expects them."""
    before = sys.argv, [*sys.path]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with forks.handling(signal.default_int_handler, signal.SIGINT):
            yield
    finally:
        sys.argv, sys.path[:] = before
