"""Writing files that survive a power cut: whole, flushed to disk, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


def write_durably(path: Path, data: bytes) -> None:
    """Write ``data`` so that ``path`` holds all of it or what it held before."""
    with written_durably(path) as file:
        file.write(data)


@contextmanager
def written_durably(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which is ``path`` once all of it is there; until then that is as before."""
    partial = path.with_name(path.name + ".partial")
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:  # the disk is full, most likely
        partial.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Flush a directory's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
