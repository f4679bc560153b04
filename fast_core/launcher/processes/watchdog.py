"""Cleans up after a run, also when its launcher died without a word. Runs as a script of its own.

The launcher starts it first and writes one line per process group to its standard input. When
the input ends without ``done``, the launcher is gone: the groups are killed (simulators start
children of their own, which no parent-death signal reaches) and the socket directory is removed.
In either case whatever still carries the run's mark in its environment is killed: a simulator may
have made a session of its own. Standard library only, so that it is small and starts at once.
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
    """Follow the launcher's lines until they end, then clean up."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    directory, mark = sys.argv[1], sys.argv[2].encode()
    groups, done = _follow()
    deadline = time.monotonic() + _KILL_FOR_S
    while groups and not done and time.monotonic() < deadline:
        groups = {group for group in groups if _kill(group)}
        time.sleep(0.02)
    while _kill_marked(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    shutil.rmtree(directory, ignore_errors=True)


def _follow() -> tuple[set[int], bool]:
    """Read lines to their end: the process groups that are left, and whether all is done."""
    groups: set[int] = set()
    for line in sys.stdin:
        word, _, value = line.strip().partition(" ")
        if word == "done":
            return groups, True
        if word == "group":
            groups.add(int(value))
        if word == "gone":
            groups.discard(int(value))
    return groups, False


def _kill_marked(mark: bytes) -> bool:
    """Kill every process with ``mark`` in its environment; False if there was none."""
    found = False
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                marked = name.isdecimal() and mark in file.read().split(b"\0")
            if marked:
                os.kill(int(name), signal.SIGKILL)
                found = True
        except OSError:  # it is gone, or somebody else's
            continue
    return found


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
