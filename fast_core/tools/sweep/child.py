"""One run of a sweep: `fastloop` in a process that keeps to its cores and dies with the sweep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fast_core.launcher.processes.guard import die_with_parent


def keep_to(parent: str, cores: str) -> None:
    """In the run's process, first of all: compute on ``cores`` (``0,1``), die with ``parent``."""
    die_with_parent(int(parent))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])


class Child:
    """A run's process, as the sweep sees it.

    Attributes:
        pid: Its process id; it leads a process group, so that a terminal's Ctrl-C goes to the
            sweep alone, which passes it on.
    """

    def __init__(self, arguments: Sequence[str], cores: Sequence[int], log: Path) -> None:
        """Run ``fastloop ARGUMENTS`` on some cores; what it prints is appended to ``log``."""
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from fast_core.tools.sweep.child import keep_to; keep_to(*sys.argv[1:3]); "
            "from fast_core.cli import main; sys.exit(main(sys.argv[3:]))"
        )
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-c", code, str(os.getpid())),
                    *(",".join(map(str, cores)), *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        self.pid = self._process.pid
        self._warned = False

    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it lives."""
        return self._process.poll()

    def interrupt(self) -> None:
        """The first time it ends with a checkpoint, the second time at once.

        First with a warning, which means nothing more to a run that was told by others too: a batch
        system may signal every process of a job.
        """
        self._send(signal.SIGINT if self._warned else signal.SIGUSR1)
        self._warned = True

    def kill(self) -> None:
        """Kill it, and its nodes with it; wait until it is gone."""
        self._send(signal.SIGKILL)
        self._process.wait()

    def _send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
