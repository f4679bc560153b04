"""A text stream that never blocks its writer for long: a paused terminal must not stop a run."""

from __future__ import annotations

import contextlib
import io
import os
import select
import stat
import time
from typing import TextIO

# What a pipe that is reported writable takes without blocking (POSIX: at least 512 bytes).
_AT_ONCE = select.PIPE_BUF


class PatientStream(io.TextIOBase):
    """Writes to a terminal, pipe or file, and gives up on text that nobody takes.

    A pager that is paused, or Ctrl-S, makes an ordinary write block for ever, and with it the
    launcher, deaf even to Ctrl-C.

    Attributes:
        dropped: Writes that were cut or dropped.
    """

    def __init__(self, stream: TextIO, *, patience_s: float = 0.1) -> None:
        """Write to the descriptor of ``stream``.

        A write waits for at most ``patience_s`` in all and drops the rest of its text then;
        after a drop nothing waits until something is taken again.

        Raises:
            OSError: It has none (`io.UnsupportedOperation`).
        """
        self._patience_s = patience_s
        self._stalled = False
        self.dropped = 0
        self._stream = stream
        reopened = _reopen(stream.fileno())
        self._reopened = reopened is not None
        self._descriptor = stream.fileno() if reopened is None else reopened
        self._cut = False

    def insist(self, patience_s: float) -> None:
        """Wait longer from now on: what comes is the last and matters."""
        self._patience_s, self._stalled = patience_s, False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the stream below."""
        return self._stream.encoding or "utf-8"

    def fileno(self) -> int:
        """Descriptor of the stream below."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether a person looks at it."""
        return self._stream.isatty()

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Write what is taken within the patience; never raises for want of space."""
        self._stream.flush()
        data = memoryview((b"\n" if self._cut else b"") + text.encode(self.encoding, "replace"))
        deadline_s = time.monotonic() + (0.0 if self._stalled else self._patience_s)
        written = 0
        while written < len(data):
            if not self._ready(deadline_s):
                self._cut = written > 0 or self._cut
                self._stalled = True
                self.dropped += 1
                return len(text)
            with contextlib.suppress(BlockingIOError):
                written += os.write(self._descriptor, data[written : written + _AT_ONCE])
        self._cut = self._stalled = False
        return len(text)

    def close(self) -> None:
        """Give back what was opened here; may be called twice."""
        if self._reopened and not self.closed:
            os.close(self._descriptor)
        super().close()

    def _ready(self, deadline_s: float) -> bool:
        left_s = max(0.0, deadline_s - time.monotonic())
        return bool(select.select([], [self._descriptor], [], left_s)[1])


def _reopen(descriptor: int) -> int | None:
    """The same terminal or pipe, opened again so that writing to it does not block.

    The flag belongs to the open file, which is shared with the shell and everybody else: setting
    it on ``descriptor`` itself would change it for them. A regular file never blocks for long,
    and opened again it would be written from its beginning.
    """
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return None
    try:
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{descriptor}", flags)
    except OSError:
        return None
