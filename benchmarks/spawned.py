"""FastLoop's command with ``multiprocessing``'s spawn in place of the fork server.

    python -m benchmarks.spawned launch CONFIG [key=value ...]

Only for `benchmarks.startup`: the same launcher and the same nodes, but every process is a new
interpreter that imports all it needs. Nobody watches over them as the fork server and the
watchdog do.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import runpy
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import SimpleNamespace

from fast_core.launcher.processes.tree import Child

_context = multiprocessing.get_context("spawn")


class SpawnTree:
    """Does what `fast_core.launcher.processes.tree.ProcessTree` does, as far as a run needs it."""

    def __init__(
        self, *, preload: Sequence[str], environment: dict[str, str], log: Path, beats: None
    ) -> None:
        self.children: dict[str, Child] = {}
        self.watchdog = SimpleNamespace(fileno=None)
        self.directory = Path(tempfile.mkdtemp(prefix="fastloop-"))
        self._processes: dict[str, BaseProcess] = {}
        self._readable, self._writable = socket.socketpair()

    def fileno(self) -> int:
        """Never readable; the launcher polls often enough."""
        return self._readable.fileno()

    def spawn(self, name: str, target: str, *, warm: Sequence[str] = ()) -> Child:
        """Start an interpreter that imports ``warm`` and runs ``target``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        process = _context.Process(target=run_child, args=(name, target, tuple(warm), theirs))
        process.start()
        theirs.close()
        self._processes[name] = process
        self.children[name] = Child(name, ours, pid=process.pid or 0)
        return self.children[name]

    def poll(self) -> list[Child]:
        """The children that have ended since."""
        exited = []
        for child in self.living():
            child.status = self._processes[child.name].exitcode
            if child.status is not None:
                exited.append(child)
        return exited

    def living(self) -> list[Child]:
        """Children that have not ended."""
        return [child for child in self.children.values() if child.status is None]

    def wait_for_exits(self, deadline_s: float) -> None:
        """Wait until no child lives or the monotonic ``deadline_s`` passes."""
        while self.living() and time.monotonic() < deadline_s:
            time.sleep(0.01)
            self.poll()

    def send_signal(self, child: Child, number: int) -> None:
        """Signal one child."""
        os.kill(child.pid, number)

    def close(self, grace_s: float) -> None:
        """End whatever still lives; may be called twice."""
        for process in self._processes.values():
            process.kill()
            process.join()
        self._readable.close()
        self._writable.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def run_child(name: str, target: str, warm: tuple[str, ...], link: socket.socket) -> None:
    """What a new interpreter does."""
    for module in warm:
        importlib.import_module(module)
    module, _, function = target.partition(":")
    sys.exit(getattr(importlib.import_module(module), function)(name, link))


def main() -> None:
    """Run FastLoop's command, as ``python -m`` does, with the other tree."""
    mode = importlib.import_module("fast_core.launcher.process_mode")
    mode.ProcessTree = SpawnTree  # type: ignore[attr-defined]
    runpy.run_module("fast_core.tools.cli", run_name="__main__")


if __name__ == "__main__":
    main()
