"""What a run in the caller's own process uses of it, given back as it was."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

from fast_core.envs.place import VARIABLES
from fast_core.errors import ConfigError
from fast_core.system import caches, threads
from fast_core.system.seeding import generators_kept
from fast_core.system.surroundings import variables_kept

_lent = threading.Lock()


@contextlib.contextmanager
def process_lent() -> Iterator[None]:
    """Use the environment variables, generators and threads that a process has only once.

    Enter it before numerical libraries are imported: they look at the variables then.

    Raises:
        ConfigError: A run in another thread has them.
    """
    if not _lent.acquire(blocking=False):
        raise ConfigError(
            "another run with mode inline goes on in this process, and both would set its "
            "environment variables, random generators and numbers of threads. Let one end first, "
            "or use mode process."
        )
    try:
        ours = {**threads.ENVIRONMENT, **caches.variables()}
        with variables_kept((*VARIABLES, *ours)):
            for name, value in ours.items():
                os.environ.setdefault(name, value)
            with generators_kept(), threads.threads_kept():
                yield
    finally:
        _lent.release()
