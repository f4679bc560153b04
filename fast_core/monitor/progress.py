"""What a person sees while a run goes on: the contract, and plain lines for files and pipes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TextIO

from fast_core.messages import LogLine
from fast_core.monitor.log_lines import is_warning, log_text
from fast_core.monitor.patient_stream import PatientStream
from fast_core.monitor.progress_line import progress_line
from fast_core.monitor.rates import Rate
from fast_core.monitor.summary import summary_text
from fast_core.monitor.view import ProgressView, RunSummary

_SHORTEST_S, _LONGEST_S = 5.0, 60.0
_LAST_WORDS_S = 1.0


class Progress(ABC):
    """Shows a run. Never raises into training: when the screen is gone it goes quiet.

    Use: `update` as often as convenient (``due`` says when it is worth building a view), `log`
    for each log line, then `finish` or `fail`, then `close`, one at a time.

    Args:
        stream: Where to write.
        clock: Monotonic seconds.
        cpu_clock: Processor seconds of this thread, to see what drawing costs.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self.warnings = 0
        self.quiet = False
        self._stream = stream
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._env_steps = Rate()
        self._updates = Rate()
        self._next_s = -float("inf")

    @property
    def next_s(self) -> float:
        """When the next drawing is due, on the monotonic clock."""
        return self._next_s

    @property
    def due(self) -> bool:
        """Whether `update` would draw now."""
        return self._clock() >= self._next_s

    def update(self, view: ProgressView) -> None:
        """Note the counters, and draw if it is time to."""
        now_s = self._clock()
        self._env_steps.add(now_s, view.env_steps)
        self._updates.add(now_s, view.updates)
        if now_s < self._next_s:
            return
        begun_s = self._cpu_clock()
        self._safely(lambda: self._draw(view))
        self._next_s = now_s + self._interval_s(view, self._cpu_clock() - begun_s)

    def log(self, line: LogLine) -> None:
        """Show a log line, whole and with its node's name."""
        self.warnings += is_warning(line)
        self._safely(lambda: self._log(line))

    def say(self, text: str, level: str = "WARNING") -> None:
        """Show a sentence of the launcher's own."""
        self.log(LogLine("launcher", level, text))

    def finish(self, summary: RunSummary) -> None:
        """Show how the run ended and how to go on."""
        self._insist()
        self._safely(lambda: self._finish(summary))

    def fail(self, report: str) -> None:
        """Show a crash report; call it last, so that the first cause is the last thing read."""
        self._insist()
        self._safely(lambda: self._print(report.rstrip("\n")))

    def close(self) -> None:
        """Give the terminal back; may be called twice."""
        self._safely(self._close)

    def _insist(self) -> None:
        stream: object = self._stream
        if isinstance(stream, PatientStream):
            stream.insist(_LAST_WORDS_S)

    def _safely(self, show: Callable[[], None]) -> None:
        if self.quiet:
            return
        try:
            show()
        except (OSError, ValueError):  # the pipe or terminal is closed
            self.quiet = True

    @abstractmethod
    def _interval_s(self, view: ProgressView, cost_s: float) -> float: ...

    @abstractmethod
    def _draw(self, view: ProgressView) -> None: ...

    @abstractmethod
    def _log(self, line: LogLine) -> None: ...

    @abstractmethod
    def _finish(self, summary: RunSummary) -> None: ...

    @abstractmethod
    def _print(self, text: str) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...


class PlainProgress(Progress):
    """Plain lines without control sequences: every 5 seconds at first, rarer in a long run."""

    def _interval_s(self, view: ProgressView, cost_s: float) -> float:
        return min(max(view.elapsed_s / 60, _SHORTEST_S), _LONGEST_S)

    def _draw(self, view: ProgressView) -> None:
        self._print(progress_line(view, self._env_steps.per_second, self._updates.per_second))

    def _log(self, line: LogLine) -> None:
        self._print(log_text(line))

    def _finish(self, summary: RunSummary) -> None:
        self._print(summary_text(summary))

    def _print(self, text: str) -> None:
        # One write a text, so that lines of other processes never land inside it; a terminal
        # that knows only ASCII gets question marks rather than an exception.
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write((text + "\n").encode(encoding, "replace").decode(encoding))
        self._stream.flush()

    def _close(self) -> None:
        """A plain stream has nothing to give back."""
