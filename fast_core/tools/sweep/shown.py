"""What a sweep shows: a table in place on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fast_core.monitor.figures import UNKNOWN, count, cut, duration, number
from fast_core.monitor.screen import screen_of
from fast_core.tools.sweep.tasks import Status, Task

_SHORTEST_S, _LONGEST_S = 5.0, 60.0
_LIVE_S = 0.5
_CAUSE = 120
_STYLES: dict[Status, str] = {
    "running": "bold",
    "elsewhere": "bold",
    "finished": "green",
    "failed": "red",
    "interrupted": "yellow",
    "waiting": "dim",
}
_ORDER: tuple[Status, ...] = (
    "failed",
    "running",
    "elsewhere",
    "interrupted",
    "waiting",
    "finished",
)


class Screen:
    """Shows the runs; a screen that is gone goes quiet and stops nothing."""

    def __init__(self, stream: TextIO | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._lives = screen_of(stream)
        self._console = Console(file=self._stream, force_terminal=self._lives, highlight=False)
        self._clock = clock
        self._began_s = clock()
        self._started_s: dict[int, tuple[float, int]] = {}
        self._told_s: dict[int, float] = {}
        self._next_s = 0.0
        self._live: Live | None = None
        self._quiet = False

    def say(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._safely(lambda: self._print(text, style))

    def _print(self, text: str, style: str) -> None:
        if self._live is not None:
            self._console.print(text, style=style, markup=False, soft_wrap=True)
            return
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(f"{text}\n".encode(encoding, "replace").decode(encoding))
        self._stream.flush()

    def _safely(self, show: Callable[[], None]) -> None:
        if self._quiet:
            return
        try:
            show()
        except (OSError, ValueError):  # the pipe or terminal is closed
            self._quiet = True

    def changed(self, task: Task) -> None:
        """A run has begun or ended."""
        if task.status == "running":
            steps = task.state.env_steps if task.state is not None else 0
            self._started_s[id(task)] = self._clock(), steps
            self._told_s[id(task)] = self._clock()
            text = f"goes on at {count(steps)} env steps" if steps else "started"
        else:
            text = self._figures(task)
        self.say(f"{self._time()} {task.name}: {text}", _STYLES[task.status])

    def update(self, tasks: Sequence[Task]) -> None:
        """Redraw the table, or print a line of each run that has been quiet for long enough."""
        now_s = self._clock()
        if self._lives:
            if now_s >= self._next_s:
                self._next_s = now_s + _LIVE_S
                self._safely(lambda: self._draw(tasks))
            return
        for task in tasks:
            started_s = self._started_s.get(id(task), (now_s, 0))[0]
            every_s = min(max((now_s - started_s) / 20, _SHORTEST_S), _LONGEST_S)
            steps = task.state.env_steps if task.state is not None else 0
            if task.child and steps and now_s >= self._told_s[id(task)] + every_s:
                self._told_s[id(task)] = now_s
                self.say(f"{self._time()} {task.name}: {self._figures(task)}")

    def close(self) -> None:
        """Take the table away; may be called twice."""
        live, self._live = self._live, None
        if live is not None:
            self._safely(live.stop)

    def _draw(self, tasks: Sequence[Task]) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(self._table(tasks, self._console.height - 4), refresh=True)

    def _table(self, tasks: Sequence[Task], rows: int) -> Table:
        counts = Counter(task.status for task in tasks)
        title = f"{self._time()} " + ", ".join(
            f"{counts[name]} {name}" for name in _ORDER if counts[name]
        )
        table = Table(title=title, title_justify="left", box=None, title_style="bold")
        table.add_column("run", no_wrap=True, overflow="ellipsis")
        table.add_column("", no_wrap=True)
        for name in ("env steps", "done", "left", "return", "best"):
            table.add_column(name, justify="right", no_wrap=True)
        shown = sorted(tasks, key=lambda task: _ORDER.index(task.status))
        for task in shown[: max(rows, 1)]:
            table.add_row(task.name, task.status, *self._cells(task), style=_STYLES[task.status])
        return table

    def _cells(self, task: Task) -> tuple[str, ...]:
        state, done = task.state, task.fraction
        if state is None:
            return (UNKNOWN,) * 5
        part = UNKNOWN if done is None else f"{100 * done:.0f} %"
        left = duration(self._left_s(task)) if task.status == "running" else UNKNOWN
        return count(state.env_steps), part, left, number(state.last), number(state.best)

    def _figures(self, task: Task) -> str:
        """A run's line: what it is doing, how far it is, what it reaches."""
        if task.status == "failed":
            return f"failed: {cut(task.cause, _CAUSE)}"
        if task.state is None:
            return "starting" if task.status == "running" else task.status
        steps, part, left, last, best = self._cells(task)
        parts = [f"{task.status}, {steps} env steps"]
        if task.status == "running":
            parts[0] += "" if part == UNKNOWN else f" ({part}, {left} left)"
            parts.append(f"return {last}")
        else:
            parts.append(f"return {last}" if best == UNKNOWN else f"best {best}")
        return ", ".join(parts)

    def _left_s(self, task: Task) -> float | None:
        """Seconds that the rest of its environment steps takes at the speed since its start."""
        limit = task.variant.config.stop.env_steps
        started_s, before = self._started_s.get(id(task), (0.0, 0))
        if limit is None or task.state is None or task.state.env_steps <= before:
            return None
        per_step_s = (self._clock() - started_s) / (task.state.env_steps - before)
        return per_step_s * max(0, limit - task.state.env_steps)

    def _time(self) -> str:
        return f"[{duration(self._clock() - self._began_s)}]"
