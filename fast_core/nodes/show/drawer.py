"""A thread in which environments draw themselves."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, NamedTuple, TypeVar

from fast_core.system import forks

T = TypeVar("T")

_TURN_S = 0.1


class Returned(NamedTuple, Generic[T]):
    """What came of a call.

    Attributes:
        value: What it returned; None where it did not.
        error: What it raised.
        returned: False if it had not come back within its limit.
    """

    value: T | None
    error: BaseException | None
    returned: bool = True


class _Call:
    """A call on its way; ``done`` is released when it has come back."""

    __slots__ = ("done", "error", "function", "value")

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.value: object = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class Drawer:
    """Calls into environments in a thread of its own, always the same one.

    What draws is often bound to a thread (OpenGL is), and a call that never comes back is left to
    its thread; the next call gets another one.

    Concurrency: who calls waits until the call has come back, so an environment is never stepped
    while it is drawn. Only a call that was given up runs beside everything else.
    """

    def __init__(self, name: str, turn: Callable[[], None]) -> None:
        """The thread is called ``name``; ``turn`` is called now and then while one waits."""
        self._name, self._turn = name, turn
        self._calls: SimpleQueue[_Call | None] | None = None

    def call(self, function: Callable[[], T], limit_s: float | None = None) -> Returned[T]:
        """Call ``function`` there and wait, at most for ``limit_s`` in which this process runs.

        Without a limit of its own no turn is shown, so that whoever looks finds what hangs there.
        """
        if self._calls is None:
            self._calls = SimpleQueue()
            arguments = (self._calls,)
            threading.Thread(target=_draw, name=self._name, args=arguments, daemon=True).start()
        call = _Call(function)
        self._calls.put(call)
        # Turns are counted, not time: a process that was stopped meanwhile has not waited.
        turns = math.inf if limit_s is None else math.ceil(limit_s / _TURN_S)
        while not call.done.acquire(timeout=_TURN_S):
            if limit_s is not None:
                self._turn()
            turns -= 1
            if turns <= 0:
                self.close()
                return Returned(None, None, returned=False)
        value: T = call.value  # type: ignore[assignment]  # what the function returned
        return Returned(value, call.error)

    def close(self) -> None:
        """Let the thread end after the call it is in."""
        calls, self._calls = self._calls, None
        if calls is not None:
            calls.put(None)


def _draw(calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        try:
            call.value = call.function()
        except BaseException as error:  # an environment may raise anything
            forks.leave_if_copy(error)
            call.error = error
        call.done.release()
        del call  # and the environment with it
