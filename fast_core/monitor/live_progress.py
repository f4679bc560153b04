"""A table on the terminal that is redrawn in place."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fast_core.messages import LogLine
from fast_core.monitor.live_table import fixed_rows, live_table
from fast_core.monitor.log_lines import is_warning, log_text
from fast_core.monitor.progress import Progress
from fast_core.monitor.summary import summary_rows
from fast_core.monitor.view import ProgressView, RunSummary

_SHORTEST_S = 0.25
_COST_SHARE = 0.008
_TAIL = 3


class LiveProgress(Progress):
    """A table that is redrawn in place, at most 4 times a second and for less than 1 % of a core.

    Warnings and errors stay on the screen above it; other log lines pass through its last rows, or
    stay above it where there is no table yet.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
        width: int | None = None,
    ) -> None:
        super().__init__(stream, clock=clock, cpu_clock=cpu_clock)
        # NO_COLOR (https://no-color.org): no bold and no dim either, which some terminals colour.
        self._console = Console(
            file=stream,
            force_terminal=True,
            highlight=False,
            width=width,
            color_system=None if os.environ.get("NO_COLOR") else "auto",
        )
        self._live: Live | None = None
        self._first = True
        self._tail: deque[str] = deque(maxlen=_TAIL)

    def _interval_s(self, view: ProgressView, cost_s: float) -> float:
        # The first drawing also fills rich's caches; its cost says nothing about the next.
        first, self._first = self._first, False
        return _SHORTEST_S if first else max(_SHORTEST_S, cost_s / _COST_SHARE)

    def _draw(self, view: ProgressView) -> None:
        if self._live is None:
            # auto_refresh would start a thread that draws whatever the budget says.
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        width, height = self._console.size
        table = live_table(
            view,
            self._env_steps.per_second,
            self._updates.per_second,
            tail=tuple(self._tail),
            warnings=self.warnings,
            width=min(width, 120),
            max_nodes=max(height - fixed_rows(view, width), 2),
        )
        self._live.update(table, refresh=True)

    def _log(self, line: LogLine) -> None:
        if is_warning(line):
            style = "red" if line.level in ("ERROR", "CRITICAL") else "yellow"
            self._console.print(log_text(line), style=style, markup=False, soft_wrap=True)
        elif self._live is None:  # it may take long until there is one, and this says why
            self._console.print(log_text(line), style="dim", markup=False, soft_wrap=True)
        else:
            self._tail.extend(log_text(line).splitlines()[-_TAIL:])

    def _finish(self, summary: RunSummary) -> None:
        self._close()
        color = {"finished": "green", "interrupted": "yellow", "failed": "red"}[summary.outcome]
        rows = summary_rows(summary)
        width = max(len(label) for label, _ in rows)
        for index, (label, text) in enumerate(rows):
            styles = (f"bold {color}", "bold") if index == 0 else ("dim", "")
            line = Text.assemble((f"{label:<{width}}  ", styles[0]), (text, styles[1]))
            # Commands are there to be copied, so a long one is not broken into lines.
            self._console.print(line, soft_wrap=True)

    def _print(self, text: str) -> None:
        self._close()
        self._console.print(text, markup=False, soft_wrap=True)

    def _close(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()
