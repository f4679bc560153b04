"""Signals that a process of FastLoop handles, and what user code forks, which has none of that.

Environments fork simulators, pools and helpers, and end them as the operating system offers it:
with a signal. So a copy of a process begins with what stood there before FastLoop's handlers.
FastLoop never ignores a signal: a program that is executed loses handlers by itself, but would
go on ignoring.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers

# Batch systems say with them that time is running out, some again and again (the kernel does, of a
# limit of CPU time): Slurm's `--signal`, Grid Engine's `-notify`. They ask for an end in order.
WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
# A terminal or a batch system may send them to every process of a job at once. What follows from
# them is decided in one place, the launcher, so every other process leaves them to it.
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *WARNINGS)
# A process writes the stacks of its threads to descriptor 2. No batch system sends a real-time one.
STACK_SIGNAL = signal.SIGRTMIN + 1

_ours: dict[int, Handler] = {}
_outside: dict[int, Handler] = {}
_writes_stacks = False
_wakeup = -1
_mask = threading.local()
_process = os.getpid()


def nothing(number: int, frame: FrameType | None) -> None:
    """Handle a signal by doing nothing."""


def leave_to_parent(number: int, frame: FrameType | None) -> None:
    """Handle a stop signal: nothing, but that CPU time runs out here only this process is told."""
    parent = os.getppid()
    if number == signal.SIGXCPU and catches(parent, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(parent, number)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of a signal, C code's too, of which Python doesn't know."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            caught = next(line for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def take(number: int, handler: Handler) -> Handler:
    """Handle a signal from now on; returns what stood there."""
    # None is a handler that C code has set; Python can't set it again.
    before = signal.getsignal(number) or signal.SIG_DFL
    signal.signal(number, handler)
    if before != _ours.get(number):
        _outside[number] = before
    _ours[number] = handler
    return before


def give_back(number: int, before: Handler) -> None:
    """Put back what `take` returned."""
    signal.signal(number, before)
    if before == _outside[number]:
        del _outside[number], _ours[number]
    else:
        _ours[number] = before


@contextlib.contextmanager
def handling(handler: Handler, *numbers: int) -> Iterator[None]:
    """Handle signals so meanwhile; outside the main thread, where Python can't, as before."""
    main = threading.current_thread() is threading.main_thread()
    before = {number: take(number, handler) for number in numbers if main}
    try:
        yield
    finally:
        for number, given in before.items():
            give_back(number, given)


def take_wakeup(descriptor: int) -> int:
    """Have every signal's number written there, or with -1 nowhere; returns where it was."""
    global _wakeup
    _wakeup = descriptor
    return signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def write_stacks() -> None:
    """Write the stacks of all threads on `STACK_SIGNAL`, by C, so whatever holds the GIL."""
    global _writes_stacks
    faulthandler.register(STACK_SIGNAL, file=2)
    _writes_stacks = True


def write_no_stacks() -> None:
    """Leave `STACK_SIGNAL` as it was."""
    global _writes_stacks
    faulthandler.unregister(STACK_SIGNAL)
    _writes_stacks = False


def own() -> None:
    """Make this copy a process of FastLoop; the copies of user code are not."""
    global _process
    _process = os.getpid()


def leave_if_copy(error: BaseException) -> None:
    """End this process, as Python would with ``error``, if user code forked it.

    To be called where an exception of user code is taken for the end of a node: its copy knows
    the same nodes, and must not report, close or save anything in their name.
    """
    if os.getpid() == _process:
        return
    status = 1
    try:
        status = exit_status(error)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def exit_status(error: BaseException) -> int:
    """The status that Python itself ends with; what it says of ``error`` is printed, as it does."""
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
    elif error.code is None:
        return 0
    elif isinstance(error.code, int):
        return error.code
    else:
        print(error.code, file=sys.stderr)
    return 1


def _block() -> None:
    # Else a signal that comes before the copy has changed its handlers would be lost.
    _mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, _ours)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _mask.before)


def _forget() -> None:
    global _wakeup, _writes_stacks
    try:
        # Where they are not FastLoop's any more, user code has set its own.
        for number, ours in _ours.items():
            if signal.getsignal(number) == ours:
                signal.signal(number, _outside[number])
        if _writes_stacks and signal.getsignal(STACK_SIGNAL) == signal.SIG_DFL:
            faulthandler.unregister(STACK_SIGNAL)
        if (descriptor := signal.set_wakeup_fd(-1)) != _wakeup:
            signal.set_wakeup_fd(descriptor)
    finally:
        _ours.clear()
        _outside.clear()
        _wakeup, _writes_stacks = -1, False
        _unblock()


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_forget)
