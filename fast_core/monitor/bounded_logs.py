"""Logs that never fill a disk, whoever writes them: a simulator may print in every step."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

LIMIT_BYTES = 8 << 20
INTERVAL_S = 0.25


class BoundedLogs:
    """Turns over each log of a folder that has grown beyond `LIMIT_BYTES`, while it is entered.

    Its newest `LIMIT_BYTES` become ``<name>.log.1``, in place of an older one, and the log is
    emptied where it lies: processes that FastLoop knows nothing of may have it open and append to
    it. What is written in just that moment is lost.

    Concurrency: a thread of its own looks every `INTERVAL_S`, whatever the launcher waits for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="bounded logs", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self.look()

    def look(self) -> None:
        """Turn over what has grown too large; a file that can't be is left as it is."""
        for path in self._folder.glob("*.log"):
            with contextlib.suppress(OSError):
                if path.stat().st_size > LIMIT_BYTES:
                    _turn_over(path)


def _turn_over(path: Path) -> None:
    older = path.with_name(f"{path.name}.1")
    with path.open("r+b") as log:
        log.seek(-LIMIT_BYTES, os.SEEK_END)
        older.write_bytes(log.read(LIMIT_BYTES))
        log.truncate(0)
    with path.open("ab") as log:
        log.write(f"[{LIMIT_BYTES >> 20} MiB of older lines are in {older.name}]\n".encode())
