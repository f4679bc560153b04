"""Cleans up after a run, also when its launcher died without a word. Runs as a script of its own.

The launcher starts it first and writes lines to its standard input: one per process group, and one
for a node that died. When the input ends without ``done``, the launcher is gone: the groups are
killed (simulators start children of their own, which no parent-death signal reaches) and the
private folder is removed. In either case whatever still carries the run's mark in its environment
is killed: a simulator may have made a session of its own.

Before that it removes what other runs have left that died with their watchdogs, and says so on its
standard output, a line each. That output ends when this process does, whatever ends it: so the
launcher knows. Standard library only, so that it is small and starts at once.

A launcher that calls user code also writes that Python runs in it. Where that stops, a call in C
keeps the interpreter's lock, and nothing there can say so or hear of Ctrl-C: see `Silence`.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

BEAT_S = 0.5  # between two signs that Python runs
LEAST_S = 10.0  # a thread may be late on a busy machine
PAUSE_S = 2.0  # who looks no sooner was itself paused; who is silent no longer is well
_KILL_FOR_S = 1.0
_STACK_S = 0.3
_PACKET = 65_536


def main() -> None:
    """Reclaim, follow the launcher's lines until they end, then clean up."""
    root, directory, *beats = sys.argv[1:]
    sys.path.append(root)  # last: nothing in it may stand in for the standard library
    from fast_core.system import forks, remains

    # Sent to every process of a job at once, they must not leave the launcher without its watchdog;
    # until here they are held back.
    for number in forks.STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for line in remains.reclaim():
        with contextlib.suppress(OSError):  # the launcher may be gone by now
            os.write(1, f"{line}\n".encode("utf-8", "backslashreplace"))
    silence = None
    if beats:
        pid, limit_s, asked = beats
        silence = Silence(int(pid), float(limit_s), int(asked), time.monotonic())
    groups, done = _follow(directory, silence)
    deadline = time.monotonic() + _KILL_FOR_S
    while groups and not done and time.monotonic() < deadline:
        groups = {group for group in groups if _kill(group)}
        time.sleep(0.02)
    remains.kill_marked({remains.RUN_FOLDER: directory})
    remains.remove_folder(directory)


class Silence:
    """How long no Python has run in a launcher that could have run it.

    It could not while it was held up (stopped, in a debugger, swapped out), and neither could one
    on a machine that was suspended or so busy that this process had no turn either: then the time
    begins anew. A call in C that keeps the interpreter's lock may take ``limit_s``, at least
    `LEAST_S` and 0 for any time, but no more than `LEAST_S` from when the launcher was asked to end
    and has not taken note of it.
    """

    def __init__(self, pid: int, limit_s: float, asked: int, now_s: float) -> None:
        """``asked`` is readable from a signal until the launcher has read of it."""
        self.pid, self._asked = pid, asked
        self._limit_s = max(limit_s, LEAST_S) if limit_s else 0.0
        self._heard_s = self._looked_s = now_s
        self._asked_s: float | None = None

    def heard(self, now_s: float) -> None:
        """Python runs."""
        self._heard_s = now_s

    def look(self, now_s: float) -> str:
        """Why the launcher is to be ended, empty while it is not."""
        from fast_core.system.process_state import is_held_up

        late, self._looked_s = now_s - self._looked_s > PAUSE_S, now_s
        if late or (now_s - self._heard_s > PAUSE_S and is_held_up(self.pid)):
            self._heard_s, self._asked_s = now_s, None
        if not select.select([self._asked], [], [], 0)[0]:
            self._asked_s = None
        elif self._asked_s is None:
            self._asked_s = now_s
        silent_s = now_s - self._heard_s
        if self._limit_s and silent_s >= self._limit_s:
            return f"for {self._limit_s:g} s (supervision.work_timeout_s, at least {LEAST_S:g})"
        if self._asked_s is not None and now_s - max(self._asked_s, self._heard_s) >= LEAST_S:
            return f"for {LEAST_S:g} s although it was asked to end"
        return ""


def _end_launcher(pid: int, directory: str, why: str) -> None:
    """Let it write its stacks, say why, and kill it; what follows is as after any other death."""
    from fast_core.system import forks, remains

    text = (
        f"fastloop: process {pid} is ended: no Python ran in it {why}. A call in C keeps the "
        "interpreter's lock, most likely in a callback: the stacks on its standard error show "
        "where. Let it give the lock back, or call it in a process of its own.\n"
    )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, forks.STACK_SIGNAL)
        time.sleep(_STACK_S)
    run = remains.run_of(directory)
    for path in (f"/proc/{pid}/fd/2", os.path.join(run, "crash.txt") if run else ""):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o644)
            os.write(file, text.encode("utf-8", "backslashreplace"))
            os.close(file)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _lines(directory: str, silence: Silence | None) -> Iterator[str]:
    """The launcher's lines; one that is silent for too long is ended meanwhile."""
    received = b""
    while True:
        if silence is not None and (why := silence.look(time.monotonic())):
            _end_launcher(silence.pid, directory, why)
            silence = None
        if select.select([0], [], [], None if silence is None else BEAT_S)[0]:
            data = os.read(0, _PACKET)
            if not data:
                return
            *whole, received = (received + data).split(b"\n")
            for line in whole:
                yield line.decode()
        elif silence is not None and os.getppid() != silence.pid:
            return  # it is gone, and a copy that user code made of it keeps this pipe open


def _follow(directory: str, silence: Silence | None) -> tuple[set[int], bool]:
    """Read lines to their end: the process groups that are left, and whether all is done."""
    from fast_core.system import remains

    groups: set[int] = set()
    for line in _lines(directory, silence):
        word, _, value = line.strip().partition(" ")
        if word == "beat" and silence is not None:
            silence.heard(time.monotonic())
        if word == "done":
            return groups, True
        if word == "group":
            groups.add(int(value))
        if word == "gone":
            groups.discard(int(value))
        if word == "died":
            remains.kill_marked({remains.RUN_FOLDER: directory, remains.NODE_NUMBER: value})
    return groups, False


def _kill(group: int) -> bool:
    """Kill a process group; False once it is empty."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    return True


if __name__ == "__main__":
    main()
