"""Reading on in a file of lines that another process appends to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class GrowingFile:
    """Gives each whole line of a file once, however often it is asked.

    A line without its end is being written, or was cut short by a killed writer, which the next
    writer closes: it is given when its end is there. A file in the place of another, as a resume
    writes one, and one that has become shorter, is read from its beginning.

    Attributes:
        path: The file; it need not be there.
        renewed: Whether the last `lines` began anew, so that what was given before is void.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.renewed = False
        self._offset = 0
        self._inode: int | None = None

    def lines(self) -> Iterator[bytes]:
        """The lines since the last call, each with its end; none where it can't be read."""
        try:
            file = self.path.open("rb")
        except OSError:
            self.renewed = self._inode is not None
            self._offset, self._inode = 0, None
            return
        with file:
            yield from self._new(file)

    def _new(self, file: BinaryIO) -> Iterator[bytes]:
        found = os.fstat(file.fileno())
        self.renewed = self._inode is not None and (
            found.st_ino != self._inode or found.st_size < self._offset
        )
        self._inode = found.st_ino
        if self.renewed:
            self._offset = 0
        file.seek(self._offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            self._offset += len(line)
            yield line
