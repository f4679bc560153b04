"""Signals that ask the run to end, turned into something a poll loop can wait for."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Self

from fast_core.system import forks
from fast_core.system.forks import STOP_SIGNALS, WARNINGS

# Programs that run others (timeout, make) pass a signal on that the terminal sent to all of them.
SAME_PRESS_S = 0.2


class Interrupted(Exception):
    """The run was asked to end before it had begun."""


class Interrupts:
    """Counts stop signals while it is entered; later ones mean "at once".

    But a warning says nothing new then, and is left to a handler that the program has of its own.

    Attributes:
        count: Stop signals so far.
        number: The first one, of which the exit status is made.
        signal: The same; None where none came and the end was asked for otherwise.
        raises: Whether the second one raises `KeyboardInterrupt`; for inline mode, where what
            hangs may be this very thread.
        at_once: Whether the first one raises it too: nothing has begun that an end in order saves.
    """

    def __init__(self) -> None:
        self.raises = False
        self.at_once = False
        self.count = 0
        self.number = signal.SIGINT
        self.signal: signal.Signals | None = None
        self._asked = ""
        self._counted_s = 0.0
        self._error: Exception | None = None
        self._previous: dict[int, forks.Handler] = {}
        self._wake_in = self._wake_out = -1
        self._previous_wakeup = -1

    def __enter__(self) -> Self:
        self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        if threading.current_thread() is threading.main_thread():
            self._previous_wakeup = forks.take_wakeup(self._wake_out)
            for number in STOP_SIGNALS:
                ignored = signal.getsignal(number) is signal.SIG_IGN  # nohup means it
                # Who handles warnings says by a callback what follows, or has stacks written.
                if not ignored and not (number in WARNINGS and forks.catches(os.getpid(), number)):
                    self._previous[number] = forks.take(number, self._handle)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if threading.current_thread() is threading.main_thread():
            forks.take_wakeup(self._previous_wakeup)
        for number, handler in self._previous.items():
            forks.give_back(number, handler)
        self._previous.clear()
        os.close(self._wake_in)
        os.close(self._wake_out)
        if error is not None:
            self.check_forced()

    def fileno(self) -> int:
        """Readable once a signal came; `drain` makes it quiet again."""
        return self._wake_in

    def drain(self) -> None:
        """Forget the wake-ups, not the count."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)

    def check(self) -> None:
        """Raise `Interrupted` if a signal came."""
        if self.count:
            raise Interrupted(self.text)

    def check_forced(self) -> None:
        """Raise `KeyboardInterrupt` if it was raised, whatever user code has made of it."""
        if self.raises and self.count > 1:
            raise KeyboardInterrupt

    def raise_in_main(self, error: Exception) -> None:
        """Raise ``error`` in the main thread, out of what it waits for; from another thread."""
        if signal.SIGINT in self._previous:
            self._error = error
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def keep(self) -> None:
        """Take the signals again that user code has taken, ignored or blocked meanwhile."""
        if self._previous:
            signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._previous)
        for number in self._previous:
            if signal.getsignal(number) != self._handle:
                signal.signal(number, self._handle)

    def ask(self, text: str) -> None:
        """Take a request, ``text`` for people, for the first signal; it is never the second."""
        if self.count == 0:
            self.count, self._asked = 1, text

    @property
    def text(self) -> str:
        """What happened, for people."""
        if self._asked:
            return self._asked
        return "Ctrl-C" if self.number == signal.SIGINT else f"signal {self.number.name}"

    @property
    def again(self) -> str:
        """What ends the run at once, for people."""
        never_again = self._asked or self.number in WARNINGS
        return "Ctrl-C" if never_again else f"{self.text} once more"

    @property
    def exit_code(self) -> int:
        """What a shell shows for a process ended by this signal."""
        return 128 + int(self.number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
        now_s = time.monotonic()
        if self.count == 0:
            self.number = signal.Signals(number)
        self.signal = self.signal or signal.Signals(number)
        same = number in WARNINGS or now_s - self._counted_s < SAME_PRESS_S
        if self.count > 0 and same:
            return
        self.count += 1
        self._counted_s = now_s
        if self.count == 1:
            # From here, because in inline mode the loop may hang in an environment.
            with contextlib.suppress(OSError):
                os.write(2, f"\n{self.text}: ending; {self.again} ends at once\n".encode())
        if self.raises and (self.count > 1 or self.at_once):
            raise KeyboardInterrupt


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold stop signals back, here and in a process started meanwhile, until it can take them.

    Else one to the whole group of a terminal ends it before it has a group or a handler.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def undisturbed(work: Callable[[], None]) -> None:
    """Do ``work`` to its end, in a thread; a Ctrl-C that comes meanwhile is raised then."""
    failed: list[BaseException] = []
    pressed: KeyboardInterrupt | None = None
    claimed, over = threading.Lock(), threading.Event()

    def run() -> None:
        if not claimed.acquire(blocking=False):
            return
        try:
            work()
        except BaseException as error:  # for the thread that waits
            failed.append(error)
        over.set()

    started = False
    while not over.is_set():
        try:
            if not started:
                # Not `threading.Thread`, whose start can be interrupted half-way.
                _thread.start_new_thread(run, ())
                started = True  # or it is started again, and does nothing
            over.wait()
        except KeyboardInterrupt as error:
            pressed = error
    for each in (*failed, pressed):
        if each is not None:
            raise each
