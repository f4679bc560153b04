"""A FastLoop run started the way a user starts it, and what the kernel says of its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TITLE = "fastloop: "
LAUNCHER = "launcher"
GRACE_S = 10.0


@dataclass
class Launched:
    """A run that is under way or over.

    Attributes:
        process: The launcher.
        started_s: Monotonic time at which its process was started.
        directory: Holds the run directory once there is one.
    """

    process: subprocess.Popen[str]
    started_s: float
    directory: Path
    output: list[str] = field(default_factory=list)

    def wait(self, timeout_s: float) -> float:
        """Wait for its end; returns the seconds since its start.

        Raises:
            RuntimeError: It failed.
        """
        text, _ = self.process.communicate(timeout=timeout_s)
        seconds = time.monotonic() - self.started_s
        if self.process.returncode:
            raise RuntimeError(f"the run ended with status {self.process.returncode}:\n{text}")
        return seconds

    def lines(self, name: str) -> list[dict[str, object]]:
        """Objects of one of the run's JSONL files; a line still being written is left out."""
        found = list(self.directory.glob(f"*/*/{name}"))
        text = found[0].read_text() if found else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def nodes(self) -> dict[str, int]:
        """Process id of every node by name, and of the launcher."""
        pids = {LAUNCHER: self.process.pid}
        for pid in descendants(self.process.pid):
            title = command_line(pid)
            if title.startswith(TITLE):
                pids[title.removeprefix(TITLE).partition(" ")[0]] = pid
        return pids


@contextmanager
def launched(
    config: Path,
    overrides: Sequence[str],
    *,
    program: str = "fast_core.tools.cli",
    python: str = sys.executable,
) -> Iterator[Launched]:
    """``fastloop launch CONFIG key=value ...`` in a temporary directory; ended on leaving.

    ``program`` is the module that is run in place of FastLoop's command, by ``python``.
    """
    with tempfile.TemporaryDirectory(prefix="fastloop-bench-") as directory:
        command = [python, "-m", program, "launch", str(config)]
        started_s = time.monotonic()
        process = subprocess.Popen(
            [*command, f"directory={directory}", *overrides],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield Launched(process, started_s, Path(directory))
        finally:
            if process.poll() is None:
                process.terminate()
            process.communicate(timeout=GRACE_S)


def descendants(pid: int) -> list[int]:
    """Processes below ``pid``; those that end meanwhile may be missing."""
    found = []
    for task in _tasks(pid):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            found += [child, *descendants(child)]
    return found


def command_line(pid: int) -> str:
    """Command line or title of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def cpu_s(pid: int) -> float:
    """Processor seconds of all threads of a process so far, to the nanosecond."""
    total = 0
    for task in _tasks(pid):
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e9


def pss_bytes(pid: int) -> int:
    """Proportional set size: private memory, and shared memory divided among its users."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no Pss line")


def _tasks(pid: int) -> list[Path]:
    try:
        return [Path(f"/proc/{pid}/task") / task for task in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
