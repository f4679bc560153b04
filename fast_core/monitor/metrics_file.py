"""Rows of ``metrics.jsonl``: reading them, and setting aside those a resume replaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import msgspec

from fast_core.messages.metrics import MetricsRow
from fast_core.system.decoding import JsonDecoder
from fast_core.system.durable import write_durably
from fast_core.system.regular_file import read_lines

_decoder = JsonDecoder(MetricsRow)


def read_rows(path: Path) -> Iterator[MetricsRow]:
    """Rows in the order they were written; lines cut short by a killed writer are left out."""
    if not path.is_file():
        return
    yield from filter(None, map(decode_row, read_lines(path)))


def supersede(metrics: Path, superseded: Path, env_steps: int) -> int:
    """Move the rows beyond ``env_steps``, and unreadable lines, to ``superseded``.

    The moved lines are on disk before the others are replaced, so a crash in between can only
    keep a line twice, never lose one.

    Returns:
        How many lines were moved.
    """
    if not metrics.exists():
        return 0
    kept: list[bytes] = []
    moved: list[bytes] = []
    for line in metrics.read_bytes().splitlines():
        row = decode_row(line)
        (kept if row is not None and row.env_steps <= env_steps else moved).append(line + b"\n")
    if moved:
        old = superseded.read_bytes() if superseded.exists() else b""
        write_durably(superseded, old + b"".join(moved))
        write_durably(metrics, b"".join(kept))
    return len(moved)


def last_steps(files: Iterable[Path]) -> dict[str, int]:
    """The greatest env step at which each value was written."""
    last: dict[str, int] = {}
    for row in chain.from_iterable(read_rows(path) for path in files):
        for name in row.values:
            last[name] = max(last.get(name, 0), row.env_steps)
    return last


def decode_row(line: bytes) -> MetricsRow | None:
    """A row as it stands in the file; None for what is none."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return None
