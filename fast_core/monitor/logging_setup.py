"""Logging inside a node: records become events, and a node never waits for its log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from fast_core.messages import LogLine

_LONGEST = 16_384


class ForwardHandler(logging.Handler):
    """Forwards records as `LogLine` events through a callable that must not block.

    A burst passes whole; beyond it lines are let through at ``lines_per_s`` and the rest are
    dropped and counted, so that a node that logs in its inner loop can't fill the control
    channel. The next line that passes is preceded by one that says how many are missing.

    Args:
        node: The node's name.
        send: Takes a line, or returns False where it has no room. It must not wait; what it
            raises is counted as a drop.
        burst: Lines that pass at once.
        lines_per_s: Lines that pass per second after that.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[LogLine], bool],
        *,
        burst: int = 500,
        lines_per_s: float = 100.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.dropped = 0
        self._node = node
        self._send = send
        self._burst = burst
        self._lines_per_s = lines_per_s
        self._clock = clock
        self._allowance = float(burst)
        self._filled_s = clock()
        self._untold = 0
        self._inside = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        """Forward or drop one record; never raises and never waits."""
        if getattr(self._inside, "sending", False):
            return  # the channel logs while it carries a log line: forwarding it would not end
        self._inside.sending = True
        try:
            self._forward(record.levelname, self._text(record))
        finally:
            self._inside.sending = False

    def _forward(self, level: str, text: str) -> None:
        needed = 1 + bool(self._untold)
        if self._refill() < needed:
            self._drop()
            return
        if self._untold:
            if not self._try_send("WARNING", f"{self._untold} log lines dropped"):
                self._drop()
                return
            self._untold = 0
        if not self._try_send(level, text):
            self._drop()

    def _refill(self) -> float:
        now_s = self._clock()
        gained = max(now_s - self._filled_s, 0.0) * self._lines_per_s
        self._allowance = min(self._allowance + gained, float(self._burst))
        self._filled_s = now_s
        return self._allowance

    def _try_send(self, level: str, text: str) -> bool:
        self._allowance -= 1
        try:
            return self._send(LogLine(self._node, level, text))
        except Exception:  # a logging call must not fail in the caller's code
            return False

    def _drop(self) -> None:
        self.dropped += 1
        self._untold += 1

    def _text(self, record: logging.LogRecord) -> str:
        try:
            text = self.format(record)
        except Exception as error:  # wrong arguments of a logging call are the caller's slip
            text = f"unreadable log record {record.msg!r}: {error}"
        if len(text) <= _LONGEST:
            return text
        return f"{text[:_LONGEST]} (... {len(text) - _LONGEST} more characters)"


def forward_logging(
    node: str, send: Callable[[LogLine], bool], *, level: int = logging.INFO
) -> ForwardHandler:
    """Send everything that this process logs, warnings of Python included, to the launcher.

    Handlers inherited from the process that forked this one are dropped, not closed: their
    locks and buffers belong to the parent.
    """
    handler = ForwardHandler(node, send)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(True)
    return handler
