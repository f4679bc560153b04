"""How a call of the launcher ended, for Python; the command line makes an exit status of it."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from fast_core.messages import Failed, StopReason
from fast_core.monitor.view import RunSummary

EXIT_FAILED = 1


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        reason: Finished, failed or interrupted.
        text: Why, with figures.
        directory: The run's folder; None where it was interrupted before there was one.
        summary: What it reached; None where it was interrupted before it began.
        signal: The signal that asked it to end, even if that came too late; None where it was
            asked otherwise, as by ``fastloop stop``.
        cause: First cause of a failure.
        report: The same for people: first cause last, with its traceback; empty without a failure.
        origin: What a callback raised, if that is the cause.
    """

    reason: StopReason
    text: str
    directory: Path | None
    summary: RunSummary | None = None
    signal: signal.Signals | None = None
    cause: Failed | None = None
    report: str = ""
    origin: BaseException | None = None

    @property
    def status(self) -> int:
        """The exit status: 0 finished, 1 failed, 128 + signal number when interrupted.

        What else interrupts counts as Ctrl-C.
        """
        if self.reason == "failed":
            return EXIT_FAILED
        return 128 + int(self.signal or signal.SIGINT) if self.reason == "interrupted" else 0
