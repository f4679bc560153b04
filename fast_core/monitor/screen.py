"""Which display fits where a run writes to."""

from __future__ import annotations

import os
from typing import TextIO

from fast_core.monitor.progress import PlainProgress, Progress


def make_progress(stream: TextIO) -> Progress:
    """A live table on a terminal that can show one, plain lines everywhere else."""
    encoding = (stream.encoding or "").lower().replace("-", "")
    capable = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb" and encoding == "utf8"
    if not capable:
        return PlainProgress(stream)
    from fast_core.monitor.live_progress import LiveProgress  # rich costs start-up time

    return LiveProgress(stream)
