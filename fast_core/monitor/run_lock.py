"""One process at a time trains in a run directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from fast_core.errors import ConfigError
from fast_core.system.regular_file import read_regular

_NO_LOCKS_HERE = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP})


def holder(path: Path) -> int | None:
    """The process that trains in a run directory, by its lock's file; None where there is none.

    The lock is not tried, because trying it could refuse it to a process that begins just then:
    the process that the file names must have the file open. Processes of other machines, and of
    other users, are not seen.
    """
    try:
        pid = int(read_regular(path))
        wanted = path.stat()
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                    return pid
    except (OSError, ValueError):
        return None
    return None


class RunLock:
    """An exclusive claim on a run directory, given back by the kernel when the process dies.

    Concurrency: ``flock`` on an open file, so children forked with the descriptor would share
    it; it is closed on exec, and nodes are forked from the fork server, which never had it.

    Attributes:
        note: Why the run is unprotected; empty when the claim holds. Some network file systems
            have no locks, which is no reason to refuse training.
    """

    def __init__(self, path: Path) -> None:
        self.note = ""
        self._fd: int | None = None
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            self._fd = os.open(path, flags, 0o644)
            self._claim(self._fd, path)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise ConfigError(
                    f"can't write {str(path)!r}: {error.strerror}. The run directory must be "
                    "writable, and its disk must have room."
                ) from error
            raise

    def close(self) -> None:
        """Give the claim back. The file stays: removing it would let two processes hold one."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _claim(self, fd: int, path: Path) -> None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"the run {str(path.parent)!r} is in use by process {holder}. Wait until it "
                "ends or stop it; to train beside it, launch a new run."
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
            self.note = f"{path} can't be locked ({error.strerror}): do not resume this run twice"
            return
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode("ascii"), 0)
