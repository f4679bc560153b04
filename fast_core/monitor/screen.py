"""Which display fits where a run writes to."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from typing import TextIO, cast

from fast_core.monitor.notebook_progress import NotebookProgress
from fast_core.monitor.patient_stream import PatientStream
from fast_core.monitor.progress import PlainProgress, Progress


def make_progress(stream: TextIO | None) -> Progress:
    """A live table on a terminal that can show one, plain lines everywhere else.

    In a notebook's cell one line that is replaced.
    None is a standard output that was closed before the start: the run trains quietly.
    """
    if type(stream).__module__.startswith("ipykernel."):
        return NotebookProgress(cast(TextIO, stream))
    screen, capable = screen_of(stream)
    # Tables of several threads would redraw over one another.
    if not capable or threading.current_thread() is not threading.main_thread():
        return PlainProgress(screen)
    from fast_core.monitor.live_progress import LiveProgress  # rich costs start-up time

    return LiveProgress(screen)


def screen_of(stream: TextIO | None) -> tuple[TextIO, bool]:
    """What to write to, which keeps nobody waiting, and whether it can show a table in place."""
    if stream is None:
        return io.StringIO(), False
    if not isinstance(stream, io.TextIOWrapper):  # a program's own, whatever its descriptor is
        return stream, False
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor can't block
        stream = cast(TextIO, PatientStream(stream))
    encoding = (stream.encoding or "").lower().replace("-", "")
    capable = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb" and encoding == "utf8"
    return stream, capable


def show_failure(report: str) -> None:
    """Print what made a run fail, once its display is closed."""
    progress = make_progress(sys.stdout)
    progress.fail(report)
    progress.close()
