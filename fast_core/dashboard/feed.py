"""What a run writes, read as it is written: rows of metrics for charts, and decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from fast_core.dashboard.source import (
    Columns,
    Event,
    Hello,
    Kind,
    Record,
    Rows,
    RunFacts,
    TileFacts,
)
from fast_core.monitor.journal import JournalEntry, decode_entry
from fast_core.monitor.metrics_file import decode_row
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.tail import Tail

MOST_EVENTS = 200  # that are told first
MOST_POINTS = 2_000  # of a chart's history
_EVALUATED = "eval/quarantined_share"  # which every evaluation's row has


class History:
    """Rows of one kind, thinned where there are many: every n-th and the last one stay.

    Attributes:
        last: The newest row.
    """

    def __init__(self) -> None:
        self._kept: list[Record] = []
        self.last: Record | None = None
        self._every, self._seen = 1, 0

    def add(self, row: Record) -> None:
        """Take a row."""
        self.last = row
        if self._seen % self._every == 0:
            self._kept.append(row)
        self._seen += 1
        if len(self._kept) > MOST_POINTS:
            self._kept = self._kept[::2]
            self._every *= 2

    def columns(self) -> Columns:
        """Each value by its name, null where a row has none of it."""
        rows = self._kept
        if self.last is not None and self.last is not rows[-1]:
            rows = [*rows, self.last]
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}


class Feed:
    """The rows and decisions of one run, those of before and those that come.

    Attributes:
        histories: What there was, by kind.
        away: Nodes that died and are not back.
        end: How the run ended, as far as it is written.
        events: The last ones.
    """

    def __init__(self, run: RunDirectory) -> None:
        self._metrics, self._events = Tail(run.metrics), Tail(run.events)
        self._forget_rows()
        self._forget_events()

    def hello(
        self,
        run: RunFacts,
        tiles: tuple[TileFacts, ...] = (),
        fps: float = 1.0,
        why_no_frames: str = "",
    ) -> Hello:
        """What a page is told first: with frames, unless there is a reason for none."""
        return Hello(
            run=run,
            tiles=tiles,
            fps=fps,
            frames=not why_no_frames,
            why_no_frames=why_no_frames,
            history={kind: each.columns() for kind, each in self.histories.items()},
            events=tuple(self.events),
        )

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
        for entry in filter(None, map(decode_entry, lines)):
            self._note(entry)
            event = Event(entry.time_s, entry.what, entry.why)
            self.events.append(event)
            yield event

    def _take_rows(self, lines: list[bytes]) -> Iterator[Rows]:
        new: dict[Kind, list[Record]] = {}
        for row in filter(None, map(decode_row, lines)):
            kind: Kind = "evaluation" if _EVALUATED in row.values else "train"
            at: Record = {"env_steps": row.env_steps, "updates": row.updates, "time_s": row.time_s}
            record = {**at, **row.values}
            self.histories[kind].add(record)
            new.setdefault(kind, []).append(record)
        for each, records in new.items():
            yield Rows(each, records)

    def _forget_rows(self) -> None:
        self.histories: dict[Kind, History] = {"train": History(), "evaluation": History()}

    def _forget_events(self) -> None:
        self.events: deque[Event] = deque(maxlen=MOST_EVENTS)
        self.away: set[str] = set()
        self.end = ""

    def _note(self, entry: JournalEntry) -> None:
        node = entry.why.partition(" ")[0]
        match entry.what:
            case "node lost" | "node gone":
                self.away.add(node)
            case "node back":
                self.away.discard(node)
            case "start" | "resume":
                self.away.clear()
                self.end = ""
            case "end":
                self.end = entry.why
