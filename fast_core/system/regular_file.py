"""Reading files in folders of whatever origin, where a name may be that of a pipe or a device."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

MOST_BYTES = 1 << 24  # of a note or a list of files; honest ones have a hundredth
MOST_LINE = 1 << 22  # bytes; a longer one is none of ours


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read its bytes; nothing is waited for, as a pipe waits for its writer.

    Raises:
        OSError: It can't be opened, or is something else than a file.
    """
    file = open(path, "rb", opener=_open)  # noqa: SIM115 - its caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """All bytes of a file, of which there are at most ``most_bytes``.

    Raises:
        OSError: As `open_regular`, or it is larger.
    """
    with open_regular(path) as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"larger than {most_bytes:,} bytes", str(path))
    return data


def read_large(path: Path) -> bytes:
    """All bytes of a file whose size is what it holds: parameters, rows.

    Raises:
        OSError: As `open_regular`.
    """
    with open_regular(path) as file:
        return file.read()


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; one that is too long to be one of ours comes in pieces.

    Raises:
        OSError: As `open_regular`.
    """
    with open_regular(path) as file:
        yield from iter(lambda: file.readline(MOST_LINE), b"")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
