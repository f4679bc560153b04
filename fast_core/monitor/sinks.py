"""The sinks of a run: making them, and feeding each in a thread of its own."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from fast_core.config import MetricsConfig, SinkConfig
from fast_core.errors import ConfigError
from fast_core.messages.metrics import MetricsRow, MetricsSink, RunEnd, RunStart
from fast_core.system.importing import named
from fast_core.system.text import error_text

BUILT_IN = {
    "tensorboard": "fast_core.monitor.tensorboard_sink:TensorBoardSink",
    "wandb": "fast_core.monitor.wandb_sink:WandbSink",
}
METHODS = ("start", "rows", "end")
SLOW_S = 30.0
MOST_ROWS = 10_000  # that wait: some hours of them, in a few MiB


def make_sink(config: SinkConfig, key: str) -> MetricsSink:
    """Make a sink.

    Args:
        config: Which, with its arguments.
        key: Where it stands in the configuration, for messages.

    Raises:
        ConfigError: There is no such class, it takes no such arguments, or it is no sink.
    """
    if ":" not in config.name and config.name not in BUILT_IN:
        raise ConfigError(
            f"{key} must be {', '.join(map(repr, BUILT_IN))} or a class as "
            f"'package.module:Class'; got {config.name!r}."
        )
    kind = named(BUILT_IN.get(config.name, config.name), f"{key}.name")
    if not callable(kind):
        raise ConfigError(f"{key}.name must name a class; {config.name!r} is {kind!r}.")
    try:
        sink: object = kind(**config.kwargs)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    # a user's code: whatever it raises is the reason
    except BaseException as error:
        raise ConfigError(
            f"{key} {config.name!r} can't be made with kwargs {config.kwargs!r}: "
            f"{error_text(error)} ({_place(error)})."
        ) from error
    if lacking := [name for name in METHODS if not callable(getattr(sink, name, None))]:
        raise ConfigError(
            f"{key} {config.name!r} must have the methods {', '.join(METHODS)} of "
            f"fast_core.messages.metrics.MetricsSink; it lacks {', '.join(lacking)}."
        )
    return sink  # type: ignore[return-value]  # it has the methods


def check_sinks(config: MetricsConfig) -> None:
    """Make every sink that the user asks for once, so that a mistake is found before a run.

    Raises:
        ConfigError: As `make_sink`, or two have one name.
    """
    for index, sink in enumerate(config.used_sinks):
        if sink in config.used_sinks[:index]:
            raise ConfigError(f"metrics.sinks names {sink.name!r} twice with the same arguments.")
        make_sink(sink, f"metrics.sinks[{index}]")


class SinkThread:
    """Feeds one sink; whatever that does, whoever feeds this never waits.

    What goes wrong is told once: that the sink did not start, that rows failed, that it is slow.

    Attributes:
        dropped: Rows that the sink did not take.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], MetricsSink],
        start: RunStart,
        report: Callable[[str], None],
        *,
        slow_s: float = SLOW_S,
        most_rows: int = MOST_ROWS,
    ) -> None:
        """Make and start the sink, in its thread.

        Args:
            name: What messages call it.
            make: Gives the sink.
            start: What it is told first.
            report: Called with a sentence, from either thread.
            slow_s: How long a single call may take before that is told.
            most_rows: How many rows may wait.
        """
        self._name, self._report = name, report
        self._slow_s, self._most_rows = slow_s, most_rows
        self.dropped = 0
        self._told: set[str] = set()
        self._waiting: list[MetricsRow] = []
        self._summary: RunEnd | None = None
        self._change = threading.Condition()
        self._call = ("", time.monotonic())  # what runs now, and since when
        self._begun = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(make, start), name=f"sink {name}", daemon=True
        )
        self._thread.start()

    def put(self, row: MetricsRow) -> None:
        """Hand over a row; it is dropped if too many wait, or the sink has not started."""
        with self._change:
            full = len(self._waiting) >= self._most_rows
            if full or not self._thread.is_alive():
                self.dropped += 1
            else:
                self._waiting.append(row)
                self._change.notify()
        if full:
            self._tell("full", f"{self._most_rows:,} rows wait for it; further ones are dropped")
        self._look()

    def end(self, summary: RunEnd) -> None:
        """Tell the sink how the run ended, after all rows; see `end_all`."""
        with self._change:
            self._summary = summary
            self._change.notify()

    def await_start(self, timeout_s: float) -> None:
        """Wait until it has started, or can't."""
        self._begun.wait(max(0.0, timeout_s))

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended; False, and a word of it, if it has not by then."""
        self._thread.join(max(0.0, timeout_s))
        if not self._thread.is_alive():
            return True
        text = f"has not ended yet and is left behind, {len(self._waiting)} rows with it"
        remedy = "To wait longer, raise metrics.end_timeout_s"
        self._tell("end", f"{text}; it is in {self._doing()}. {remedy}")
        return False

    def _look(self) -> None:
        what, since_s = self._call
        if what and time.monotonic() >= since_s + self._slow_s:
            self._tell("slow", f"takes more than {self._slow_s:g} s for {self._doing()}; rows wait")

    def _doing(self) -> str:
        """The call that runs, and where it is."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return f"{self._call[0]}() ({_innermost(frame)})"

    def _tell(self, kind: str, text: str) -> None:
        if kind not in self._told:
            self._told.add(kind)
            goes_on = "" if kind == "end" else "; training goes on"
            self._report(f"metrics sink {self._name!r} {text}{goes_on}")

    # --- in its thread -------------------------------------------------------------------------

    def _run(self, make: Callable[[], MetricsSink], start: RunStart) -> None:
        made: list[MetricsSink] = []
        begun = self._try("__init__", lambda: made.append(make()))
        begun = begun and self._try("start", lambda: made[0].start(start))
        self._begun.set()
        if not begun:
            return
        (sink,) = made
        while (rows := self._take()) is not None:
            if not self._try("rows", lambda taken=rows: sink.rows(taken)):  # type: ignore[misc]
                self.dropped += len(rows)
        if (summary := self._summary) is not None:
            self._try("end", lambda: sink.end(summary))

    def _take(self) -> Sequence[MetricsRow] | None:
        """The rows that wait, as soon as there are any; None after the last ones."""
        with self._change:
            while not self._waiting and self._summary is None:
                self._change.wait()
            rows, self._waiting = self._waiting, []
        return rows or None

    def _try(self, what: str, call: Callable[[], None]) -> bool:
        self._call = (what, time.monotonic())
        try:
            call()
        except BaseException as error:  # the boundary to foreign code
            gone = "" if what in ("rows", "end") else "; it is left out"
            self._tell(what, f"failed in {what}(): {error_text(error)} ({_place(error)}){gone}")
            return False
        finally:
            self._call = ("", 0.0)
        return True


def end_all(sinks: Sequence[SinkThread], summary: RunEnd, limit_s: float) -> None:
    """Tell sinks how the run ended, and wait for them.

    A short run may be over before they have started, which takes W&B seconds, a minute without a
    network: for that they have ``limit_s``, and as long again to end.
    """
    for sink in sinks:
        sink.end(summary)
    for wait in (SinkThread.await_start, SinkThread.join):
        deadline_s = time.monotonic() + limit_s
        for sink in sinks:
            wait(sink, deadline_s - time.monotonic())


def _place(error: BaseException) -> str:
    """Where foreign code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = str(Path(__file__))
    theirs = [frame for frame in frames if frame.filename != own] or frames
    return f"{theirs[-1].filename}, line {theirs[-1].lineno}"


def _innermost(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename == threading.__file__ and frame.f_back:
        frame = frame.f_back  # whoever waits there is meant
    if frame is None:
        return "at its end"
    return f"{frame.f_code.co_filename}, line {frame.f_lineno}"
