"""Cleans up after a launcher that died without a word. Runs as a script of its own.

The launcher starts it first and writes one line per process group to its standard input. When
the input ends without ``done``, the launcher is gone: the groups are killed (simulators start
children of their own, which no parent-death signal reaches) and the socket directory is removed.
Standard library only, so that it is small and starts at once.
"""

import os
import shutil
import signal
import sys
import time

_KILL_FOR_S = 1.0
# Sent to every process of a job at once, they must not leave the launcher without its watchdog.
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> None:
    """Follow the launcher's lines until they end."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    directory, groups = sys.argv[1], set()
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
        if word == "done":
            return
        if word == "group":
            groups.add(int(value))
        if word == "gone":
            groups.discard(int(value))
    deadline = time.monotonic() + _KILL_FOR_S
    while groups and time.monotonic() < deadline:
        groups = {group for group in groups if _kill(group)}
        time.sleep(0.02)
    shutil.rmtree(directory, ignore_errors=True)


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
