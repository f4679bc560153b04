"""Reading on in a file of lines that another process appends to."""

from __future__ import annotations

import os
from pathlib import Path

from fast_core.system.regular_file import MOST_LINE, open_regular

_PIECE = 1 << 20


class Tail:
    """Reads whole lines of a file that another process appends to.

    A line without an end is kept until the rest of it is there. A file that was replaced, as a
    resume does, or cut is read from its beginning. What is no file has no lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None  # device and inode
        self._at = 0
        self._rest = b""

    def read(self) -> tuple[bool, list[bytes]]:
        """Whether all begins anew, and what lines there are since the last call.

        At most a piece of a long file is read at once: what is not there yet comes next time.
        """
        try:
            with open_regular(self._path) as file:
                status = os.fstat(file.fileno())
                found = status.st_dev, status.st_ino
                anew = found != self._file or status.st_size < self._at
                if anew:
                    self._at, self._rest = 0, b""
                before, self._file = self._file, found
                file.seek(self._at)
                data = file.read(_PIECE)
        except OSError:
            return False, []
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_LINE:
            self._rest = b""
        return anew and before is not None, lines
