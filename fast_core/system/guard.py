"""What ties the life of a process to its parent's, enforced by the kernel."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.5


def die_with_parent(parent: int) -> None:
    """Arrange that this process is killed as soon as process ``parent`` is gone.

    On Linux the kernel does it, also while this process is stopped or holds the GIL in C.
    Elsewhere a thread polls. If the parent died before this call, the process exits at once.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    else:
        threading.Thread(target=_poll, args=(parent,), name="guard", daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _poll(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_S)
    os._exit(1)
