"""Puts a run among those that `fastloop ps` finds, and makes it listen."""

from __future__ import annotations

import contextlib
from contextlib import ExitStack
from pathlib import Path

from fast_core.launcher.control.server import ControlServer
from fast_core.monitor.control_socket import SOCKET
from fast_core.monitor.run_directory import RunDirectory


def listen(folder: Path, run: RunDirectory, stack: ExitStack) -> ControlServer:
    """Listen in the run's private folder, which is short and can hold sockets.

    A link in the run's directory leads there; where there can't be one, the private folder says
    which run it is of. ``stack`` ends both.

    Raises:
        OSError: There can be no socket.
    """
    server = ControlServer(str(folder / SOCKET))
    stack.callback(server.close)
    with contextlib.suppress(OSError):
        run.control.unlink(missing_ok=True)  # of an earlier part, which was killed
        run.control.symlink_to(folder / SOCKET)
        stack.callback(_unlink, run.control)
    return server


def _unlink(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
