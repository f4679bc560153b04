"""Inline mode: ends a call into user code that does not return, from a thread that watches it."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Literal, NoReturn, Self

import msgspec

from fast_core.config import RunConfig
from fast_core.errors import NodeFailed
from fast_core.launcher.failures.stall import CHECK_INTERVAL_S, StallDetector
from fast_core.messages import Failed
from fast_core.system.interrupts import Interrupts

GIVE_UP_S = 3.0
_DEBUGGERS = {"bdb", "pdb", "debugpy", "pydevd", "_pydevd_bundle"}


class Limits:
    """Raises what is overdue in the main thread, where Ctrl-C would be raised, too.

    There it passes through the call like any error, so the same report follows. If the main
    thread does not come out of the call, because it is stuck in C, ``end`` is called here.
    A run that a debugger has stopped has no limits any more. What holds the interpreter lock can't
    be noticed by a thread.

    Attributes:
        detector: Looks at the counters of the node whose turn it is, once there are nodes.
    """

    def __init__(self, interrupts: Interrupts, end: Callable[[Failed], NoReturn]) -> None:
        self.detector: StallDetector | None = None
        self._interrupts, self._end = interrupts, end
        self._main = threading.main_thread()
        self._turn: tuple[str, str, float | None] | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="limits", daemon=True)

    def __enter__(self) -> Self:
        if threading.current_thread() is self._main:  # nothing can be raised in another one
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        if self._thread.ident is not None:
            self._thread.join()

    def begin(self, node: str, what: str = "", key: str = "", limit_s: float | None = None) -> None:
        """It is this node's turn; with ``limit_s`` the turn must end in time."""
        text = "" if limit_s is None else f"{what} within {limit_s:g} s ({key})"
        self._turn = (node, text, None if limit_s is None else time.monotonic() + limit_s)

    def probing(self, config: RunConfig) -> Callable[[Literal["make", "call"]], None]:
        """What `fast_core.envs.trying.probe` calls before it calls the environment."""
        step_s, start_s = config.environment.step_timeout_s, config.supervision.start_timeout_s

        def before(what: Literal["make", "call"]) -> None:
            if what == "make":
                text = "an environment was not made"
                self.begin("probe", text, "supervision.start_timeout_s", start_s)
            else:
                text = "an environment that is tried out did not return from reset, step or close"
                self.begin("probe", text, "environment.step_timeout_s", step_s)

        return before

    def rest(self) -> None:
        """It is FastLoop's own turn."""
        self._turn = None

    def _watch(self) -> None:
        while not self._closed.wait(CHECK_INTERVAL_S):
            turn, frame = self._turn, sys._current_frames().get(self._main.ident or 0)
            if frame is not None and in_debugger(frame):
                return
            failed = None if turn is None else self._overdue(*turn)
            if failed is None:
                continue
            stack = "".join(traceback.format_stack(frame))
            if self._turn is not turn:  # it has just returned
                continue
            self._interrupts.raise_in_main(NodeFailed(failed.error))
            deadline_s = time.monotonic() + GIVE_UP_S
            while self._turn is turn and not self._closed.wait(CHECK_INTERVAL_S):
                if time.monotonic() >= deadline_s:
                    stack = f"Stack of the call (most recent call last):\n{stack}"
                    self._end(msgspec.structs.replace(failed, traceback=stack))

    def _overdue(self, node: str, text: str, deadline_s: float | None) -> Failed | None:
        now_s = time.monotonic()
        if deadline_s is not None and now_s >= deadline_s:
            return Failed(node, "a call into user code", text, "", {})
        if self.detector is None:
            return None
        return self.detector.check(now_s, only=node)


def in_debugger(frame: FrameType | None) -> bool:
    """Whether a debugger has stopped the thread of this frame, or is attached."""
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _DEBUGGERS:
            return True
        frame = frame.f_back
    return "pydevd" in sys.modules
