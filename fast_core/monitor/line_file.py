"""Append-only text files that never stop training."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path


class LineFile:
    """Appends whole lines to a file, one unbuffered write each.

    What was written survives a killed process, because nothing waits in a buffer of ours. A
    write that fails is counted in ``dropped`` and the first failure is told to ``report``; no
    error ever reaches the caller. A line that a killed or failing writer left unfinished is
    closed with a newline first, so it damages no other line.

    The file is made at the first write. One process writes a file at a time.
    """

    def __init__(self, path: Path, report: Callable[[str], None]) -> None:
        self.path = path
        self.dropped = 0
        self._report = report
        self._fd: int | None = None
        self._torn = False

    def write(self, line: str) -> bool:
        """Append a line; returns whether it reached the file."""
        try:
            data = line.replace("\n", " ").encode("utf-8", "backslashreplace") + b"\n"
            self._append(data)
        except (OSError, ValueError) as error:
            self._count(error)
            return False
        return True

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # the descriptor is gone in any case
                os.close(fd)

    def _append(self, data: bytes) -> None:
        if self._fd is None:
            self._fd = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
            )
            self._torn = _ends_inside_a_line(self._fd)
        if self._torn:
            data = b"\n" + data
        remaining = memoryview(data)
        while remaining:
            # A full disk takes a part of the line and refuses the rest at the next call.
            remaining = remaining[os.write(self._fd, remaining) :]
            self._torn = bool(remaining)

    def _count(self, error: Exception) -> None:
        self.dropped += 1
        if self.dropped == 1:
            self._report(
                f"can't write {self.path}: {error}; training goes on without these lines, "
                "further failures are only counted"
            )


def _ends_inside_a_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size > 0 and os.pread(fd, 1, size - 1) != b"\n"
