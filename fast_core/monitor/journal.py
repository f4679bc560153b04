"""``events.jsonl``: what was decided during a run, when and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

import msgspec

from fast_core.messages.metrics import Int64
from fast_core.monitor.line_file import LineFile
from fast_core.monitor.view import RunSummary
from fast_core.system.decoding import JsonDecoder
from fast_core.system.regular_file import read_lines
from fast_core.system.text import encodable

SUMMARY = "summary"
Fact = str | Int64 | float | bool | None


class JournalEntry(msgspec.Struct, frozen=True):
    """One line of ``events.jsonl``."""

    time_s: float
    wall: str
    what: str
    why: str
    facts: dict[str, Fact] = {}


_decoder = JsonDecoder(JournalEntry)


def read_entries(path: Path) -> Iterator[JournalEntry]:
    """Entries in the order they were written; lines cut short by a killed writer are left out."""
    if not path.is_file():
        return
    yield from filter(None, map(decode_entry, read_lines(path)))


def decode_entry(line: bytes) -> JournalEntry | None:
    """An entry as it stands in the file; None for what is none."""
    try:
        return _decoder.decode(line)
    except msgspec.DecodeError:
        return None


class EventJournal:
    """Appends one JSON object a line: ``{"time_s", "wall", "what", "why", "facts"}``.

    Never raises into training: what can't be written is left out, and the first
    failure is told to ``report``.

    Args:
        path: The file, appended to when it exists.
        clock: Seconds since the run began, monotonic.
        wall: The time of day, for people only.
        report: Called with one sentence at the first failure.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float],
        wall: Callable[[], datetime],
        report: Callable[[str], None],
    ) -> None:
        self._file = LineFile(path, report)
        self._clock = clock
        self._wall = wall

    def write(self, what: str, why: str, facts: Mapping[str, Fact] | None = None) -> None:
        """Append an entry.

        Args:
            what: What happened, a word or two that does not change ("checkpoint").
            why: The reason with its figures, for people.
            facts: Further values by name, for programs.
        """
        wall = self._wall().isoformat(timespec="milliseconds")
        why = encodable(why)
        entry = JournalEntry(round(self._clock(), 3), wall, what, why, dict(facts or {}))
        # A fact of a foreign type (a NumPy scalar, a path) becomes text rather than an error.
        self._file.write(msgspec.json.encode(entry, enc_hook=str).decode())

    def summarise(self, summary: RunSummary) -> None:
        """Append how the run ended; the report reads the outcome from here."""
        facts: dict[str, Fact] = {
            "outcome": summary.outcome,
            "elapsed_s": round(summary.elapsed_s, 3),
            "env_steps": summary.env_steps,
            "updates": summary.updates,
            "best_evaluation": None if summary.best is None else summary.best.mean,
            "checkpoint": summary.checkpoint,
            "comebacks": summary.comebacks,
        }
        self.write(SUMMARY, summary.text, facts)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
