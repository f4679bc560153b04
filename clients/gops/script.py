"""`fastloop gops`: a GOPS script, unchanged, with FastLoop's trainers."""

from __future__ import annotations

import functools
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fast_core.clients.gops.installation import install
from fast_core.clients.gops.options import PARALLEL, SERIAL
from fast_core.errors import ConfigError
from fast_core.integrations.scripts import as_main, run_as_main, status_of

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
    with as_main(script, arguments), _plenty_of_cores():
        made = install(serial=True, **options)
        status = status_of(functools.partial(run_as_main, script))
    if not made and status == 0:
        print(
            f"fastloop gops: {script} made none of the trainers that FastLoop takes over "
            f"({', '.join((*SERIAL, *PARALLEL))}) by create_trainer, so all that it did was "
            "GOPS's own, as with python.",
            file=sys.stderr,
        )
    return status


@contextmanager
def _plenty_of_cores() -> Iterator[None]:
    """Cores as the script expects them."""
    cores = multiprocessing.cpu_count

    def count() -> int:
        # Scripts refuse fewer cores than Ray would have actors. Here algorithm and buffers share
        # a process, and what asks beside the script gets the truth.
        asks = sys._getframe(1).f_globals.get("__name__")
        return _PLENTY if asks == "__main__" else cores()

    multiprocessing.cpu_count = count
    try:
        yield
    finally:
        multiprocessing.cpu_count = cores
