"""Sinks as users write them, good ones and bad ones."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from fast_core.messages.metrics import MetricsRow, RunEnd, RunStart


class Lines:
    """Writes a line for everything it is told into a file of the run directory."""

    def __init__(self, file: str = "lines.txt") -> None:
        if not file.endswith(".txt"):
            raise ValueError(f"{file!r} is no text file")
        self._file = file

    def start(self, run: RunStart) -> None:
        self._path = run.directory / self._file
        self._write(f"start {run.name} {run.continued_env_steps} {run.config['seed']}")

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        for row in rows:
            self._write(f"row {row.env_steps}")

    def end(self, summary: RunEnd) -> None:
        self._write(f"end {summary.outcome} {summary.env_steps} {summary.best_return}")

    def _write(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")


class Fails(Lines):
    def rows(self, rows: Sequence[MetricsRow]) -> None:
        super().rows(rows)
        raise RuntimeError("the server said no")


class Leaves(Lines):
    def start(self, run: RunStart) -> None:
        raise SystemExit(3)


class Hangs(Lines):
    """Hangs in whichever method is named."""

    def __init__(self, method: str = "rows") -> None:
        super().__init__()
        self._method = method

    def start(self, run: RunStart) -> None:
        super().start(run)
        self._hang("start")

    def rows(self, rows: Sequence[MetricsRow]) -> None:
        super().rows(rows)
        self._hang("rows")

    def end(self, summary: RunEnd) -> None:
        self._hang("end")

    def _hang(self, method: str) -> None:
        if method == self._method:
            threading.Event().wait()


class NoEnd:
    def start(self, run: RunStart) -> None: ...

    def rows(self, rows: Sequence[MetricsRow]) -> None: ...


def lines(directory: Path) -> list[str]:
    path = directory / "lines.txt"
    return path.read_text().splitlines() if path.exists() else []
