"""What a run writes, read as it is written: rows of metrics for charts, and decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from fast_core.dashboard.source import Columns, Event, Kind, Record, Rows
from fast_core.metrics import MetricsRow
from fast_core.monitor.journal import JournalEntry
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.tail import Tail
from fast_core.system.decoding import JsonDecoder

MOST_EVENTS = 200  # that are told first
MOST_POINTS = 2_000  # of a chart's history
# What is said of episodes, by what rows of metrics call it.
_EPISODE = {
    "return": "return_last",
    "length": "length_last",
    "mean_10": "return_mean_10",
    "mean_50": "return_mean_50",
    "mean_100": "return_mean",
    "mean_length": "length_mean",
}
_EVALUATED = "eval/quarantined_share"  # which every evaluation's row has

T = TypeVar("T")

_rows = JsonDecoder(MetricsRow)
_entries = JsonDecoder(JournalEntry)


class History:
    """Rows of one kind, thinned where there are many: every n-th and the last one stay."""

    def __init__(self) -> None:
        self._kept: list[Record] = []
        self._last: Record | None = None
        self._every, self._seen = 1, 0

    def add(self, row: Record) -> None:
        """Take a row."""
        self._last = row
        if self._seen % self._every == 0:
            self._kept.append(row)
        self._seen += 1
        if len(self._kept) > MOST_POINTS:
            self._kept = self._kept[::2]
            self._every *= 2

    @property
    def last(self) -> Record | None:
        """The newest row."""
        return self._last

    def columns(self) -> Columns:
        """Each value by its name, null where a row has none of it."""
        rows = self._kept
        if self._last is not None and self._last is not rows[-1]:
            rows = [*rows, self._last]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


class Feed:
    """The rows and decisions of one run, those of before and those that come.

    Attributes:
        histories: What there was, by kind.
        lives: The number of each node's life, where it is not its first.
        away: Nodes that died and are not back.
        end: How the run ended, as far as it is written.
        events: The last ones.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._metrics, self._events = Tail(run.metrics), Tail(run.events)
        self._episodes = 0.0  # that had ended at the row before
        self._forget_rows()
        self._forget_events()

    def catch_up(self) -> None:
        """Read all that is there."""
        while self.read()[1]:
            pass

    def read(self) -> tuple[bool, list[Rows | Event]]:
        """Whether all rows of before are void, and what was written since the last call.

        Where they are void the rows that are there instead are among the histories already.
        """
        void, lines = self._metrics.read()
        if void:
            self._forget_rows()
        rows = list(self._take_rows(lines))
        while void and lines:
            _, lines = self._metrics.read()
            rows = list(self._take_rows(lines))
        return void, [*(() if void else rows), *self._take_events()]

    def _take_events(self) -> Iterator[Event]:
        anew, lines = self._events.read()
        if anew:
            self._forget_events()
        for line in lines:
            entry = _decoded(_entries, line)
            if entry is not None:
                self._note(entry)
                event = Event(entry.time_s, entry.what, entry.why)
                self.events.append(event)
                yield event

    def _take_rows(self, lines: list[bytes]) -> Iterator[Rows]:
        new: dict[Kind, list[Record]] = {}
        for line in lines:
            row = _decoded(_rows, line)
            for kind, record in () if row is None else self._records(row):
                self.histories[kind].add(record)
                new.setdefault(kind, []).append(record)
        for kind, records in new.items():
            yield Rows(kind, records)

    def _records(self, row: MetricsRow) -> Iterator[tuple[Kind, Record]]:
        """What a row of metrics is for the page's charts."""
        at: Record = {"env_steps": row.env_steps, "updates": row.updates, "time_s": row.time_s}
        if _EVALUATED in row.values:
            yield "evaluation", {**at, **row.values}
            return
        yield "train", {**at, **row.values}
        if (episode := self._episode(row)) is not None:
            yield "episodes", episode

    def _episode(self, row: MetricsRow) -> Record | None:
        """The last episode, with the means of those before it; None where none has ended since.

        Rows of before have the mean of a hundred alone.
        """
        before = self._episodes
        self._episodes = row.values.get("rollout/episodes") or 0.0
        found = {name: row.values.get(f"rollout/{key}") for name, key in _EPISODE.items()}
        if found["mean_100"] is None or self._episodes == before:
            return None
        if found["return"] is None:
            found["return"], found["length"] = found["mean_100"], found["mean_length"]
        return {"env_steps": row.env_steps, **found}

    def _forget_rows(self) -> None:
        self._episodes = 0.0
        kinds: tuple[Kind, ...] = ("train", "evaluation", "episodes")
        self.histories: dict[Kind, History] = {kind: History() for kind in kinds}

    def _forget_events(self) -> None:
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.lives: dict[str, int] = {}
        self.away: set[str] = set()
        self.end = ""

    def _note(self, entry: JournalEntry) -> None:
        node = entry.why.partition(" ")[0]
        match entry.what:
            case "node lost" | "node gone":
                self.lives[node] = self.lives.get(node, 1) + 1
                self.away.add(node)
            case "node back":
                self.away.discard(node)
            case "start" | "resume":
                self.away.clear()
                self.end = ""
            case "end":
                self.end = entry.why


def _decoded(decoder: JsonDecoder[T], line: bytes) -> T | None:
    """What a line says; None where it is none of ours, such as one that was cut short."""
    try:
        return decoder.decode(line)
    except msgspec.DecodeError:
        return None
