"""The launcher's side of the watchdog: what it is told, what it says, and who takes its place."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from fast_core.system import forks
from fast_core.system.interrupts import held_back
from fast_core.system.watchdog import BEAT_S

RESTARTS = 3
_REAP_S = 1.0
_END_S = 2.0
_PACKET = 65_536


class Beats(NamedTuple):
    """What this process is told by that it does nothing any more.

    Attributes:
        limit_s: How long no Python may run in it, None for any time.
        asked: A descriptor that is readable while it has not taken note of a signal.
    """

    limit_s: float | None
    asked: int


class Watchdog:
    """The process that cleans up if this one is killed, and its successors if it is killed itself.

    Attributes:
        fileno: Readable when `take` has something to say; None once nobody takes its place.
    """

    def __init__(self, directory: Path, beats: Beats | None = None) -> None:
        """Start it; ``directory`` is the run's private folder.

        With ``beats`` it also ends this process, and says why, where no Python runs in it.
        """
        self._directory, self._beats = directory, beats
        self._groups: set[int] = set()
        self._restarts = 0
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="beats", daemon=True)
        self._start()
        if beats is not None:
            forks.write_stacks()
            self._beating.start()

    def _start(self) -> None:
        script = Path(__file__).parent / "watchdog.py"
        command = [sys.executable, "-I", "-S", str(script), str(script.parents[2])]
        command.append(str(self._directory))
        if (beats := self._beats) is not None:
            command += [str(os.getpid()), str(beats.limit_s or 0), str(beats.asked)]
        with held_back():
            self._process = subprocess.Popen(
                command,
                pass_fds=() if beats is None else (beats.asked,),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self.fileno: int | None = self._process.stdout.fileno()
        for group in sorted(self._groups):
            self._write(f"group {group}")

    def add(self, group: int) -> None:
        """Have a process group killed if this process is gone."""
        self._groups.add(group)
        self._write(f"group {group}")

    def discard(self, group: int) -> None:
        """A process group is empty."""
        self._groups.discard(group)
        self._write(f"gone {group}")

    def end_children(self, mark: str) -> None:
        """Kill what a dead child has started, whatever group or session it is in, by its mark."""
        self._write(f"died {mark}")

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it is gone, which `take` reports
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _beat(self) -> None:
        """Say that Python runs, unless the watchdog is stopped and takes nothing.

        Past the stream, whose lock a copy would inherit that user code forks meanwhile, and which
        no two threads may write to.
        """
        while not self._over.wait(BEAT_S):
            with contextlib.suppress(OSError, ValueError):  # as in `_write`
                assert self._process.stdin is not None
                pipe = self._process.stdin.fileno()
                if select.select([], [pipe], [], 0)[1]:
                    os.write(pipe, b"beat\n")

    def take(self) -> tuple[list[str], str]:
        """What it says it did, and how it ended if it has, with what follows from that."""
        assert self.fileno is not None
        said = os.read(self.fileno, _PACKET).decode("utf-8", "replace")
        if said:
            return said.splitlines(), ""
        text = f"the watchdog, which cleans up if this process is killed, {self._end()}"
        self._close_pipes()
        if self._restarts == RESTARTS:
            self.fileno = None
            text += (
                f" like {RESTARTS} before it, and is not replaced again; if this process is killed "
                "too, the next start of a run or `fastloop doctor` cleans up"
            )
        else:
            self._restarts += 1
            self._start()
            text += "; another one has taken its place"
        return [], text

    def _end(self) -> str:
        try:
            return describe_exit(self._process.wait(_REAP_S))
        except subprocess.TimeoutExpired:
            return "does not answer"

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def close(self) -> None:
        """Have it kill what has left the groups of dead children, and wait for its end."""
        if self._beats is not None and not self._over.is_set():
            self._over.set()
            self._beating.join()
            forks.write_no_stacks()
        if self._process.poll() is not None:  # only a watchdog does that
            self._close_pipes()
            self._start()
        self._write("done")
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:  # stopped by somebody
            self._process.kill()
            self._process.communicate()


def describe_exit(status: int | None) -> str:
    """How a process ended, for people."""
    if status is None:
        return "did not answer"
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"was killed by {name}"
