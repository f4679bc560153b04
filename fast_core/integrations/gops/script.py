"""`fastloop gops`: a GOPS script, unchanged, with FastLoop's trainers."""

from __future__ import annotations

import multiprocessing
import runpy
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast_core.errors import ConfigError
from fast_core.integrations.gops.installation import install

_INTERRUPTED = 130  # 128 + SIGINT, what shells expect after Ctrl-C
_PLENTY = 1024


def run_script(script: Path, arguments: Sequence[str], **options: Any) -> int:
    """Install the integration, then run a script as Python would.

    Args:
        script: The file.
        arguments: What it gets as its own.
        **options: As of `install`; serial trainers are taken over too.

    Returns:
        The status that the script ends with.

    Raises:
        ConfigError: There is no such file, or GOPS can't be imported.
    """
    if not script.is_file():
        raise ConfigError(
            f"there is no GOPS script {str(script)!r} in {Path.cwd()}. Give the path of a Python "
            "file, such as one of GOPS's example_train."
        )
    with _as_main(script, arguments):
        install(serial=True, **options)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except KeyboardInterrupt:
            print("fastloop: interrupted", file=sys.stderr)
            return _INTERRUPTED
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            print(end.code, file=sys.stderr)
            return 1
    return 0


@contextmanager
def _as_main(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Arguments, search path, Ctrl-C and cores as the script expects them."""
    before = sys.argv, [*sys.path], signal.getsignal(signal.SIGINT)
    cores = multiprocessing.cpu_count

    def count() -> int:
        # Scripts refuse fewer cores than Ray would have actors. Here algorithm and buffers share
        # a process, and what asks beside the script gets the truth.
        asks = sys._getframe(1).f_globals.get("__name__")
        return _PLENTY if asks == "__main__" else cores()

    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.cpu_count = count
    try:
        yield
    finally:
        multiprocessing.cpu_count = cores
        sys.argv, sys.path[:] = before[:2]
        signal.signal(signal.SIGINT, before[2])
