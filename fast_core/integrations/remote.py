"""A collector or an evaluator in a process of its own, made there by its factory.

What travels is Python objects of the host's own, by `fast_core.integrations.transport`, over an
anonymous socket pair of which only the two processes hold the ends. The process is killed with the
thread that started it, and what it started itself with its group: by `Remote.close`, or by the
watchdog if this process dies.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import cloudpickle

from fast_core.errors import ConfigError, NodeFailed
from fast_core.integrations.hosts import Collecting, Evaluating, Host, Part, Weights, check, hook
from fast_core.integrations.parcels import pack
from fast_core.integrations.results import without_ours
from fast_core.integrations.transport import Incoming, Link, Parcel, Sent, Shelf
from fast_core.system import forks, remains
from fast_core.system.beside import start
from fast_core.system.forks import STOP_SIGNALS, WARNINGS
from fast_core.system.interrupts import undisturbed
from fast_core.system.text import error_text
from fast_core.system.watched import Watchdog, describe_exit

_REAP_S = 5.0
_LEAVING_S = 0.2  # that a process gets to see that nobody asks it any more
_INTERRUPTED_S = 1.0  # and then to come back from what it is doing, by KeyboardInterrupt


class Household:
    """The processes of one run, and the watchdog that ends them if this process is killed.

    Attributes:
        weights: Where the weights for all of them are put.
    """

    def __init__(self) -> None:
        self.weights = Shelf()
        self._folder = remains.new_path()
        self._watchdog = Watchdog(Path(self._folder))  # no folder is made: there is no socket
        self._members: list[Remote] = []
        self._closed = False

    def start(
        self, part: Part, name: str, factory: Host, rank: int, seed: int, *, call: str = ""
    ) -> Remote:
        """Start a process that makes a part; `Remote.wait_until_ready` waits for it.

        Args:
            part: What is made.
            name: Its name for people.
            factory: Makes it there, of ``rank`` and ``seed``.
            rank: Its number.
            seed: Its seed.
            call: What people know its work as; else it is the method of such a part.

        Raises:
            ConfigError: The factory can't be sent.
        """
        try:
            order = Sent(pack((part, name, factory, rank, seed)))
        except Exception as error:  # whatever a user's object raises when it is pickled
            raise ConfigError(
                f"the factory of {name} can't be sent to its process: {error_text(error)}. Make "
                "what can't be pickled inside it."
            ) from error
        ours, theirs = socket.socketpair()
        process = start(
            "fast_core.integrations.remote:serve",
            [str(theirs.fileno())],
            descriptors=[theirs.fileno()],
            variables={remains.RUN_FOLDER: self._folder},
        )
        self._watchdog.add(process.pid)
        theirs.close()
        self._members.append(Remote(part, name, process, ours, call))
        with contextlib.suppress(OSError):  # it is gone, which `wait_until_ready` tells
            self._members[-1].link.send(None, order)
        return self._members[-1]

    def close(self, grace_s: float = 0.0) -> None:
        """End all of them and what they started; may be called twice.

        They get ``grace_s`` to leave as any Python program does, with what it has to do at its end.
        Those that are at work then are interrupted, as by Ctrl-C, and killed a second later.
        """
        undisturbed(functools.partial(self._close, grace_s))

    def _close(self, grace_s: float) -> None:
        members, self._members = self._members, []
        for member in members:
            member.dismiss()
        _wait_for(members, max(grace_s, _LEAVING_S))
        for member in members:
            member.interrupt()
        _wait_for(members, _INTERRUPTED_S)
        for member in members:
            member.kill()
        if not self._closed:
            self._closed = True
            self._watchdog.close()
            self.weights.close()


def _wait_for(members: Sequence[Remote], timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    for member in members:
        member.is_gone(max(deadline_s - time.monotonic(), 0.0))


class Remote:
    """Does in a process what `Collecting` or `Evaluating` does here; one call at a time."""

    def __init__(
        self,
        part: Part,
        name: str,
        process: subprocess.Popen[bytes],
        end: socket.socket,
        call: str = "",
    ) -> None:
        self.name = f"{name} (process {process.pid})"
        method = Collecting.method if part == "collector" else Evaluating.method
        self.call = call or f"{method}()"
        self.pid = process.pid
        self._process, self.link, self._sent = process, Link(end), -1

    def wait_until_ready(self, timeout_s: float | None) -> frozenset[str]:
        """Wait until the part is made; returns the names of what it has.

        Raises:
            ConfigError: It lacks a method.
            NodeFailed: Its factory raised or took longer, or the process is gone.
        """
        self.link.socket.settimeout(timeout_s)
        names: frozenset[str] = self._take("its factory")
        self.link.socket.settimeout(None)
        return names

    def __call__(self, weights: Weights | None, train_iter: int, envstep: int) -> Any:
        """One unit of work; ``weights.state`` was put on the shelf, and stays there meanwhile.

        Raises:
            NodeFailed: See `result`.
        """
        self.begin(weights, train_iter, envstep)
        return self.result()

    def begin(self, weights: Weights | None, train_iter: int, envstep: int) -> None:
        """Have it begin one; `result` is to be called before the next."""
        new = weights if weights is not None and weights.version != self._sent else None
        with contextlib.suppress(OSError):  # it is gone, which `_take` tells
            self.link.send(
                (None if new is None else new.version, train_iter, envstep),
                None if new is None else cast("Parcel", new.state),
            )
        self._sent = self._sent if weights is None else weights.version

    def result(self, timeout_s: float | None = None) -> Any:
        """Wait for what it has begun.

        Raises:
            NodeFailed: It raised, with its traceback; what it gave can't be sent; the process is
                gone; or it took longer.
        """
        self.link.socket.settimeout(timeout_s)
        result = self._take(self.call)
        self.link.socket.settimeout(None)
        return result

    def _take(self, doing: str) -> Any:
        try:
            failure, answer = self.link.receive()
        except TimeoutError as error:
            limit_s = self.link.socket.gettimeout()
            raise NodeFailed(
                f"{self.name} did not come back from {doing} within {limit_s:g} s (work_timeout_s)"
            ) from error
        except (OSError, EOFError) as error:
            raise NodeFailed(f"{self.name} {self._end()} in {doing}") from error
        if failure is None:
            return self._read(answer, doing)
        what, cause, text = pickle.loads(failure)
        if isinstance(cause, ConfigError):
            raise cause
        raise NodeFailed(f"{self.name} {what} {doing}:\n{text}") from cause

    def _read(self, answer: Incoming | None, doing: str) -> Any:
        assert answer is not None
        try:
            return answer.read()
        except Exception as error:  # whatever a user's object raises when it is made
            raise NodeFailed(
                f"what {self.name} gave in {doing} can't be made in this process: "
                f"{error_text(error)}. Give arrays, numbers, or objects of modules that both have."
            ) from error

    def _end(self) -> str:
        try:
            return describe_exit(self._process.wait(_REAP_S))
        except subprocess.TimeoutExpired:
            return "does not answer"

    def dismiss(self) -> None:
        """Let it leave when it has nothing to do, and a thread that waits for it go on."""
        with contextlib.suppress(OSError):
            self.link.socket.shutdown(socket.SHUT_RDWR)

    def is_gone(self, timeout_s: float) -> bool:
        """Whether it has left, after that time at most."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def interrupt(self) -> None:
        """Have what it does raise `KeyboardInterrupt`; nothing if it is gone."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """End it and all of its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self.link.close()


# --- in the process ------------------------------------------------------------------------------


def serve(descriptor: str) -> None:
    """Make the part and do its work until the other side is gone."""
    # What is made here can be interrupted, and what that starts ended, as in any program.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in WARNINGS:  # those are the program's to understand
        forks.take(number, forks.leave_to_parent)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    end = socket.socket(fileno=int(descriptor))
    os.set_inheritable(end.fileno(), False)  # a simulator's own programs have no use for it
    link = Link(end)
    os.register_at_fork(after_in_child=link.close)  # nor those it forks, who may outlive it
    with _leaving_quietly():
        _, order = link.receive()
        assert order is not None
        part, name, factory, rank, seed = order.read()
        served = _Served(link)

        def make() -> frozenset[str]:
            served.part = _make(part, name, factory, rank, seed)
            return frozenset(dir(served.part.host))

        if served.answer(make):
            with contextlib.closing(served):
                while True:
                    (version, train_iter, envstep), state = link.receive()
                    work = functools.partial(served.work, version, state, train_iter, envstep)
                    served.answer(work)


@contextlib.contextmanager
def _leaving_quietly() -> Iterator[None]:
    """Leave when the other side is gone or interrupts; what is done at exit is not disturbed."""
    try:
        with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Served:
    """The part, the weights that it has, and what it answered last."""

    part: Collecting | Evaluating

    def __init__(self, link: Link) -> None:
        self._link, self._shelf = link, Shelf(plain=True)
        self._weights: Weights | None = None
        self._answer: Parcel | None = None

    def close(self) -> None:
        """Let the part end what it has started, if it can."""
        self.part.close()
        hook(self.part.host, "close", None)

    def work(
        self, version: int | None, state: Incoming | None, train_iter: int, envstep: int
    ) -> object:
        """Work once, with new weights if there are any."""
        if version is not None and state is not None:
            self._weights = Weights(version, state.read())
        return self.part(self._weights, train_iter, envstep)

    def answer(self, work: Callable[[], object]) -> bool:
        """Send what ``work`` gives, or what it raises; returns whether it was the former."""
        failure: bytes | None = None
        self._answer = None  # the other side has read it, or it would not have asked again
        try:
            result = work()
            try:
                self._answer = self._shelf.put(result)
            except Exception as error:  # whatever a user's object raises when it is pickled
                text = (
                    f"{error_text(error)}\nGive arrays, tensors, numbers, or objects made of them."
                )
                failure = _failure("gave what can't be sent, in", error, text)
        except BaseException as error:  # the end of a process of the user's code
            text = "".join(traceback.format_exception(without_ours(error)))
            failure = _failure("raised in", error, text)
        self._link.send(failure, self._answer)
        return failure is None


def _failure(what: str, error: BaseException, text: str) -> bytes:
    try:
        data: bytes = cloudpickle.dumps((what, error, text))
        pickle.loads(data)  # some errors can be pickled and not be made again
    except Exception:
        return pickle.dumps((what, None, text))
    return data


def _make(part: Part, name: str, factory: Host, rank: int, seed: int) -> Collecting | Evaluating:
    host = factory(rank, seed)
    loads = ("load_weights", "it is in a process of its own, where the learner's model is not")
    check(host, part, name, [loads])
    return Collecting(host) if part == "collector" else Evaluating(host)
