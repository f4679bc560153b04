"""Reading files in folders of whatever origin, where a name may be that of a pipe."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read its bytes; nothing is waited for, as a pipe waits for its writer.

    Raises:
        OSError: It can't be opened, or is something else than a file.
    """
    file = open(path, "rb", opener=_open)  # noqa: SIM115 - its caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


def read_regular(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        OSError: As `open_regular`.
    """
    with open_regular(path) as file:
        return file.read()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
