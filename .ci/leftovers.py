"""Run a command and fail if it leaves a process, a shared-memory entry or a socket file behind.

    python .ci/leftovers.py COMMAND [ARGUMENT ...]

Linux hands the orphans of a subreaper's descendants to it, whatever their session or group, so
nothing that the command started can hide.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 5.0  # what FastLoop promises
SHARED_MEMORY = Path("/dev/shm")


def shared_memory() -> set[str]:
    """Names in /dev/shm."""
    return {entry.name for entry in SHARED_MEMORY.iterdir()} if SHARED_MEMORY.is_dir() else set()


def sockets() -> set[str]:
    """Socket files below the temporary folder."""
    # os.walk, because folders of others may go meanwhile
    folders = os.walk(tempfile.gettempdir())
    paths = (Path(folder, name) for folder, _, names in folders for name in names)
    return {str(path) for path in paths if path.is_socket()}


def bound() -> set[str]:
    """Socket files on which somebody still listens: others, once every child is gone."""
    lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    return {words[7] for line in lines if len(words := line.split(maxsplit=7)) == 8}


def children() -> list[int]:
    """Child processes that still run; those that ended are reaped."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                break
        except ChildProcessError:
            return []
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _mine(pid)]


def _mine(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return int(stat.rpartition(")")[2].split()[1]) == os.getpid()  # after "pid (name) state"


def describe(pid: int) -> str:
    """Number and command line of a process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return str(pid)
    return f"{pid} {b' '.join(words).decode(errors='replace').strip()}"


def main() -> int:
    """Run the command; its exit status, or 1 if it left something behind."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    entries, files = shared_memory(), sockets()
    status = subprocess.run(sys.argv[1:], check=False).returncode
    deadline = time.monotonic() + GRACE_S
    while children() and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [f"process {describe(pid)}" for pid in children()]
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    left += [f"shared memory {SHARED_MEMORY / name}" for name in shared_memory() - entries]
    new, others = sockets() - files, bound()
    mine = (path for path in new if os.path.realpath(path) not in others)
    left += [f"socket {path}" for path in mine if Path(path).is_socket()]
    for what in left:
        print(f"left behind: {what}", file=sys.stderr)
    return status or int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
