"""Calls the callbacks in a thread of their own, one after the other, in the order of events."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from fast_core.callbacks import End, Metrics
from fast_core.config import RunConfig
from fast_core.errors import CheckpointError, ConfigError, FastLoopError
from fast_core.launcher.calling.callback import Callback, make_named, of_objects
from fast_core.launcher.calling.live import Live
from fast_core.launcher.failures.limits import in_debugger
from fast_core.messages import Failed, Moment, Save, Saved, Value
from fast_core.messages.launching import Asked, Told
from fast_core.scheduler import CALLBACKS
from fast_core.system import forks
from fast_core.system.interrupts import Interrupts
from fast_core.system.state_file import check as check_state
from fast_core.system.state_file import load, save
from fast_core.system.text import bounded, traceback_text

CALLBACKS_FILE = "callbacks.msgpack"
LOOK_S = 0.01  # between looks at interrupts and limits while the launcher waits for a callback
JOIN_S = 1.0
PAUSE_S = 2.0  # the launcher looks for a call that does not return more often
MOST_UNHEARD = 1000  # of what was asked for; the launcher hears of it within milliseconds

Call = tuple[str, object]  # name of a method, and what it is told
Reply = Told | Saved | Failed


class Host:
    """The callbacks of one run and their thread.

    The scheduler waits for them only where the run does anyway: before it begins, for a
    synchronous evaluation, for a checkpoint. So a slow callback never delays a ticket otherwise.
    The queue is bounded: one start, one evaluation and one checkpoint can wait at most, because
    the next comes only when callbacks have been told of the one before, and one row of metrics,
    which a newer one replaces.

    What was asked for and not heard of yet when a checkpoint was cut belongs to it all the same: a
    callback that remembers to have asked must not have asked in vain. So it stands in the
    callbacks' part, and a resumed run begins with it.

    Attributes:
        changed: Values that are not the configuration's, by key, as callbacks have asked for them.
            Of the checkpoint's, set before the first `tell`; the thread's from then on.

    Concurrency: tasks and answers are deques (append and popleft are atomic); `_place` is written
    by the thread and read by others, whole.
    """

    def __init__(
        self,
        config: RunConfig,
        given: Sequence[object],
        directory: Path,
        earlier: Host | None = None,
    ) -> None:
        """``given`` are objects, called after those of the configuration; `begin` makes them.

        With ``earlier``, which called them until a part of the run was lost, they are the same ones
        and go back to what they remembered at the checkpoint, or at the beginning.
        """
        self.callbacks: list[Callback] = [] if earlier is None else earlier.callbacks
        # What they remembered first, None until they are made.
        self._first: list[dict[str, object]] | None = None if earlier is None else earlier._first
        self._config, self._given, self._directory = config, given, directory
        self._tasks: deque[Callable[[], None]] = deque()
        self._answers: deque[Reply] = deque()
        self._there = threading.Semaphore(0)
        self._metrics: Metrics | None = None
        self.changed: dict[str, Value] = {}
        self._asked: deque[tuple[int, Asked]] = deque(maxlen=MOST_UNHEARD)  # with serial numbers
        self._serial = self._heard = 0  # of what was asked for last, and of what was heard of last
        self._unheard: list[Asked] = []  # of the part of the run that the checkpoint is of
        self._place: tuple[str, float] | None = None  # what is being called, and since when
        self._looked_s, self._forgiven_s = time.monotonic(), 0.0  # for calls that do not return
        self._given_tasks = self._done_tasks = 0  # each counted by one thread alone
        self._failed: Failed | None = None
        self._raised: list[_Raised] = []
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._work, name="callbacks", daemon=True)

    # --- for the launcher ----------------------------------------------------------------------

    def begin(self, checkpoint: Path | None, interrupts: Interrupts) -> tuple[str, ...]:
        """Make the callbacks, and give them back what a checkpoint has of them.

        Returns:
            Names of those that the run of the checkpoint had, but this one has not.

        Raises:
            ConfigError: One can't be made, is none, or has nothing that a checkpoint can hold.
            Interrupted: A signal came meanwhile.
        """
        self._thread.start()
        outcome: list[FastLoopError | tuple[str, ...]] = []
        self._put(lambda: outcome.append(self._make(checkpoint)))
        limit_s = self._config.supervision.start_timeout_s
        while not outcome:
            interrupts.check()
            if (late := self.overdue(limit_s, "supervision.start_timeout_s")) is not None:
                raise ConfigError(f"{late.traceback}{late.error}")
            if (failed := self._failed) is not None:
                raise ConfigError(f"{failed.traceback}{failed.error}")
            time.sleep(0.001)
        (found,) = outcome
        if isinstance(found, FastLoopError):
            raise found
        return found

    def wants(self, method: str) -> bool:
        """Whether any callback has this method."""
        return any(callback.method(method) is not None for callback in self.callbacks)

    def fileno(self) -> int:
        """Readable once there is an answer to `take`."""
        return self._wake

    @property
    def busy(self) -> bool:
        """Whether something is being called, or an answer was not taken."""
        return bool(self._calling or self._answers)

    @property
    def _calling(self) -> bool:
        return self._done_tasks < self._given_tasks

    def tell(self, moment: Moment, calls: Sequence[Call]) -> None:
        """Call these methods of all callbacks, and answer with `Told`."""
        self._put(partial(self._tell, moment, tuple(calls)))

    def hear(self, told: Told) -> None:
        """The scheduler is given this answer now."""
        self._heard += len(told.asked)

    def offer(self, metrics: Metrics) -> None:
        """Tell of a row of metrics, unless a newer one comes before its turn."""
        waits, self._metrics = self._metrics is not None, metrics
        if not waits:
            self._put(self._tell_metrics)

    def save(self, command: Save) -> None:
        """Write what callbacks want to remember into a checkpoint that is cut now."""
        self._put(partial(self._save, command, self._heard))

    def take(self) -> list[Reply]:
        """What has come of it since the last time."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        answers = []
        while self._answers:
            answers.append(self._answers.popleft())
        return answers

    def origin(self, failed: Failed) -> BaseException | None:
        """What user code raised, if this failure is made of it."""
        return next((each.__cause__ for each in self._raised if each.failed is failed), None)

    def overdue(self, limit_s: float | None, key: str) -> Failed | None:
        """The call that does not return, as a failure, once; None while all is well."""
        place, now_s = self._place, time.monotonic()
        if now_s > self._looked_s + PAUSE_S:  # this process was stopped, and the call with it
            self._forgiven_s = now_s
        self._looked_s = now_s
        if place is None or limit_s is None or self._failed:
            return None
        if now_s < max(place[1], self._forgiven_s) + limit_s:
            return None
        frame = sys._current_frames().get(self._thread.ident or 0)
        if in_debugger(frame):
            return None
        stack = traceback.extract_stack(frame)
        own = max(i for i, each in enumerate(stack) if each.filename == __file__)
        text = "".join(traceback.format_list(stack[own + 1 :]))
        self._failed = Failed(
            CALLBACKS,
            f"calling {place[0]} for {now_s - place[1]:.1f} s without an end",
            f"{place[0]} did not return within {limit_s:g} s ({key})",
            f"Stack of the call (most recent call last):\n{text}",
            {},
        )
        return self._failed

    def end(self, end: End, limit_s: float | None, key: str, hurry: Callable[[], bool]) -> str:
        """Call what is still to be called, and `on_end`; `take` has what came of it.

        Each call may take ``limit_s``. Nothing is waited for once ``hurry`` says so.

        Returns:
            What has not returned by then, empty if everything has.
        """
        self._put(partial(self._tell, None, (("on_end", end),), over=True))
        self._await_calls(limit_s, key, hurry)
        place = self._place
        return "" if place is None else place[0]

    def rest(self, limit_s: float | None, key: str, hurry: Callable[[], bool]) -> bool:
        """Call what is still to be called; False if something fails or does not return."""
        self._await_calls(limit_s, key, hurry)
        return not self._calling and self._failed is None

    def _await_calls(self, limit_s: float | None, key: str, hurry: Callable[[], bool]) -> None:
        hangs = self._place is not None and self._failed is not None
        while self._calling and not hangs and not hurry():
            if (late := self.overdue(limit_s, key)) is not None:
                self._answers.append(late)
                break
            time.sleep(LOOK_S)

    def close(self) -> None:
        """Let the thread end. May be called twice."""
        if self._wake < 0:
            return
        self._tasks.append(_stop_thread)
        self._there.release()
        if self._thread.ident is not None and self._place is None:
            self._thread.join(JOIN_S)
        descriptor, self._wake = self._wake, -1
        os.close(descriptor)

    def _put(self, task: Callable[[], None]) -> None:
        self._given_tasks += 1
        self._tasks.append(task)
        self._there.release()

    # --- in the thread -------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            self._there.acquire()
            task = self._tasks.popleft()
            if task is _stop_thread:
                return
            try:
                task()
            # Whatever it is: everybody would wait for ever for the answer of a thread that is gone.
            except BaseException as error:
                raised = error if isinstance(error, _Raised) else _Raised(_failure("them", error))
                self._failed = self._failed or raised.failed
                self._answer_raised(raised)
            finally:
                self._done_tasks += 1

    def _answer(self, answer: Reply) -> None:
        self._answers.append(answer)
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)

    def _answer_raised(self, raised: _Raised) -> None:
        self._raised.append(raised)
        self._answer(raised.failed)

    def _call(self, by: str, call: Callable[[], object]) -> object:
        """Call user code.

        Raises:
            _Raised: It raised, whatever.
        """
        self._place = by, time.monotonic()
        try:
            return call()
        except BaseException as error:
            forks.leave_if_copy(error)
            trace = error.__traceback__
            error.__traceback__ = trace.tb_next if trace is not None else None
            raise _Raised(_failure(by, error)) from error
        finally:
            self._place = None

    def _tell(self, moment: Moment | None, calls: Sequence[Call], over: bool = False) -> None:
        if self._failed is not None and not over:
            return
        asked, self._unheard = self._unheard, []
        for each in asked:
            self._note(each)
        for name, record in calls:
            for callback in self.callbacks:
                method = callback.method(name)
                if method is None:
                    continue
                by = f"{callback.name}.{name}"
                live = Live(by, self._config, self._directory, self.changed, over=over)
                try:
                    self._call(by, partial(method, record, live))
                except _Raised as raised:
                    if not over:
                        raise
                    self._answer_raised(raised)  # the others are to end all the same
                if (wanted := live.take()) is not None:
                    asked.append(wanted)
                    self._note(wanted)
        if moment is not None or asked:
            self._answer(Told(moment, tuple(asked)))

    def _note(self, asked: Asked) -> None:
        self._serial += 1
        self._asked.append((self._serial, asked))
        self.changed |= asked.changes

    def _tell_metrics(self) -> None:
        metrics, self._metrics = self._metrics, None
        if metrics is not None:
            self._tell(None, (("on_metrics", metrics),))

    def _save(self, command: Save, heard: int) -> None:
        states = self._states()
        unheard = [msgspec.to_builtins(asked) for serial, asked in self._asked if serial > heard]
        path, error = Path(command.directory) / CALLBACKS_FILE, ""
        try:
            save(path, {"callbacks": states, "unheard": unheard})
        except OSError as full:
            error = str(full)
        files = () if error else (CALLBACKS_FILE,)
        self._answer(Saved(CALLBACKS, command.checkpoint, files, error))

    def _states(self) -> list[dict[str, object]]:
        """What each callback wants to remember, None for nothing, under its name.

        Raises:
            _Raised: One raised, or gave what a checkpoint can't hold.
        """
        states: list[dict[str, object]] = []
        for callback in self.callbacks:
            method, state, by = callback.method("state_dict"), None, f"{callback.name}.state_dict"
            if method is not None:
                state = self._call(by, method)
                if fault := _fault(state):
                    raise _Raised(Failed(CALLBACKS, f"calling {by}", fault, "", {}))
            states.append({"name": callback.name, "state": state})
        return states

    def _make(self, checkpoint: Path | None) -> FastLoopError | tuple[str, ...]:
        try:
            first = self._first
            if first is None:
                self._make_all()
                self._first = copy.deepcopy(self._states())
            if checkpoint is not None:
                return self._restore(read_callbacks(checkpoint))
            if first is not None:
                self._restore(msgspec.convert({"callbacks": copy.deepcopy(first)}, CallbacksState))
            return ()
        except _Raised as raised:
            cause = raised.__cause__
            if isinstance(cause, FastLoopError):
                return cause
            failed = raised.failed
            by = failed.doing.removeprefix("calling ")
            refusal = ConfigError(f"{failed.traceback}callbacks: {by} failed: {failed.error}")
            refusal.__cause__ = cause
            return refusal
        except FastLoopError as error:
            return error

    def _make_all(self) -> None:
        for index, config in enumerate(self._config.callbacks):
            made = self._call(config.name, partial(make_named, config, index))
            assert isinstance(made, Callback)
            self.callbacks.append(made)
        named = len(self.callbacks)
        given = self._call("what was given", partial(of_objects, self._given, named))
        self.callbacks += cast("list[Callback]", given)

    def _restore(self, content: CallbacksState) -> tuple[str, ...]:
        """Give callbacks back what they had; the k-th of a name gets what the k-th had."""
        saved = content.callbacks
        for callback in self.callbacks:
            method = callback.method("load_state_dict")
            mine = next((each for each in saved if each.name == callback.name), None)
            if mine is None:
                continue
            saved.remove(mine)
            if method is not None and mine.state is not None:
                self._call(f"{callback.name}.load_state_dict", partial(method, mine.state))
        self._unheard = content.unheard
        return tuple(each.name for each in saved)


class CallbackState(msgspec.Struct):
    """A callback's part of a checkpoint.

    Attributes:
        name: Its class.
        state: What it wanted to remember, None for nothing.
    """

    name: str
    state: Any


class CallbacksState(msgspec.Struct):
    """What a checkpoint has of callbacks.

    Attributes:
        callbacks: Each one's part, in order.
        unheard: What they had asked for and nobody had heard of yet.
    """

    callbacks: list[CallbackState] = []
    unheard: list[Asked] = []


def read_callbacks(checkpoint: Path) -> CallbacksState:
    """What a checkpoint has of callbacks, nothing where its run had none.

    Raises:
        CheckpointError: It can't be read.
    """
    path = checkpoint / CALLBACKS_FILE
    if not path.exists():
        return CallbacksState()
    try:
        return msgspec.convert(load(path), CallbacksState)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{path} holds no states of callbacks: {error}") from error


class _Raised(Exception):
    """User code raised."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.error)
        self.failed = failed


def _failure(by: str, error: BaseException) -> Failed:
    what = bounded("".join(traceback.format_exception_only(error)).strip())
    return Failed(CALLBACKS, f"calling {by}", what, traceback_text(error), {})


def _stop_thread() -> None:
    """The last task."""


def _fault(state: object) -> str:
    """Why a checkpoint can't hold what a callback wants to remember; empty if it can."""
    if not isinstance(state, dict):
        return f"state_dict() must return a dict; got a {type(state).__name__}"
    try:
        check_state(state)
    except TypeError as error:
        return str(error)
    return ""
