"""One run of a sweep: `fastloop` in a process that keeps to its cores and dies with the sweep."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

from fast_core.system.beside import start


class Child:
    """A run's process, as the sweep sees it.

    Attributes:
        pid: Its process id; it leads a session, so that a terminal's Ctrl-C goes to the sweep
            alone, which passes it on.
    """

    def __init__(self, arguments: Sequence[str], cores: Sequence[int], log: Path) -> None:
        """Run ``fastloop ARGUMENTS`` on some cores; what it prints is appended to ``log``."""
        words = [",".join(map(str, cores)), *arguments]
        with log.open("ab") as output:
            self._process = start("fast_core.tools.cli:run_on_cores", words, output=output)
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
