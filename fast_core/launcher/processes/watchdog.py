"""Cleans up after a run, also when its launcher died without a word. Runs as a script of its own.

The launcher starts it first and writes lines to its standard input: one per process group, and one
for a node that died. When the input ends without ``done``, the launcher is gone: the groups are
killed (simulators start children of their own, which no parent-death signal reaches) and the
private folder is removed. In either case whatever still carries the run's mark in its environment
is killed: a simulator may have made a session of its own.

Before that it removes what other runs have left that died with their watchdogs, and says so on its
standard output, a line each. That output ends when this process does, whatever ends it: so the
launcher knows. Standard library only, so that it is small and starts at once.
"""

import contextlib
import os
import signal
import sys
import time

_KILL_FOR_S = 1.0


def main() -> None:
    """Reclaim, follow the launcher's lines until they end, then clean up."""
    root, directory = sys.argv[1:]
    sys.path.append(root)  # last: nothing in it may stand in for the standard library
    from fast_core.system import forks, remains

    # Sent to every process of a job at once, they must not leave the launcher without its watchdog;
    # until here they are held back.
    for number in forks.STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for line in remains.reclaim():
        with contextlib.suppress(OSError):  # the launcher may be gone by now
            os.write(1, f"{line}\n".encode("utf-8", "backslashreplace"))
    groups, done = _follow(directory)
    deadline = time.monotonic() + _KILL_FOR_S
    while groups and not done and time.monotonic() < deadline:
        groups = {group for group in groups if _kill(group)}
        time.sleep(0.02)
    remains.kill_marked({remains.RUN_FOLDER: directory})
    remains.remove_folder(directory)


def _follow(directory: str) -> tuple[set[int], bool]:
    """Read lines to their end: the process groups that are left, and whether all is done."""
    from fast_core.system import remains

    groups: set[int] = set()
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
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
