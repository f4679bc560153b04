"""Log lines of nodes as the launcher shows and stores them: whole, with the node's name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fast_core.messages import LogLine
from fast_core.monitor.figures import printable
from fast_core.monitor.line_file import LineFile
from fast_core.monitor.run_directory import RunDirectory

_WARNING_LEVELS = frozenset({"WARNING", "ERROR", "CRITICAL"})


def is_warning(line: LogLine) -> bool:
    """Whether a person should see it even in a hurry."""
    return line.level in _WARNING_LEVELS


def log_text(line: LogLine) -> str:
    """The line for a screen: each line of its text behind the node's name and the level."""
    head = f"{printable(line.node)} {line.level.lower()}: "
    return "\n".join(head + printable(text) for text in line.text.splitlines() or [""])


class NodeLogs:
    """Writes each node's lines to ``logs/<node>.log``; never raises into training.

    The launcher writes them, which gets every line as an event, so each node's order is the
    order in which it logged. A node's raw output may be sent to the same file: both sides append
    whole lines, so they never land inside one another.
    """

    def __init__(
        self,
        run: RunDirectory,
        *,
        wall: Callable[[], datetime],
        report: Callable[[str], None],
    ) -> None:
        self._run = run
        self._wall = wall
        self._report = report
        self._files: dict[str, LineFile] = {}

    def write(self, line: LogLine) -> None:
        """Append a log record, a line of the file for each line of its text."""
        file = self._files.get(line.node)
        if file is None:
            file = self._files[line.node] = LineFile(self._run.log(line.node), self._report)
        stamp = self._wall().isoformat(timespec="milliseconds")
        for text in line.text.splitlines() or [""]:
            file.write(f"{stamp} {line.level} {printable(text)}")

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()
