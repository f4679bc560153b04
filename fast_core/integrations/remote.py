"""A collector or an evaluator in a process of its own, made there by its factory.

What travels is Python objects of the host's own, pickled, over an anonymous socket pair of which
only the two processes hold the ends. The process is killed with the thread that started it, and
what it started itself with its group: by `Remote.close`, or by the watchdog if this process dies.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import cloudpickle

from fast_core.errors import ConfigError, NodeFailed
from fast_core.integrations.hosts import Collecting, Evaluating, Host, Part, Weights, check
from fast_core.launcher.processes.guard import die_with_parent
from fast_core.launcher.processes.interrupts import held_back
from fast_core.launcher.processes.watched import Watchdog, describe_exit
from fast_core.system import remains
from fast_core.system.text import error_text

_REAP_S = 5.0
_START = (
    "import sys; sys.path[:] = {path!r}; from fast_core.integrations.remote import serve; "
    "serve(int(sys.argv[1]), int(sys.argv[2]))"
)


class Household:
    """The processes of one run, and the watchdog that ends them if this process is killed."""

    def __init__(self) -> None:
        self._folder = remains.new_path()
        self._watchdog = Watchdog(Path(self._folder))  # no folder is made: there is no socket
        self._members: list[Remote] = []
        self._closed = False

    def start(self, part: Part, name: str, factory: Host, rank: int, seed: int) -> Remote:
        """Start a process that makes a part; `Remote.wait_until_ready` waits for it.

        Raises:
            ConfigError: The factory can't be sent.
        """
        try:
            order = cloudpickle.dumps((part, name, factory, rank, seed))
        except Exception as error:  # whatever a user's object raises when it is pickled
            raise ConfigError(
                f"the factory of {name} can't be sent to its process: {error_text(error)}. Make "
                "what can't be pickled inside it."
            ) from error
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-c", _START.format(path=sys.path)]
        with held_back():
            process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, remains.RUN_FOLDER: self._folder},
                start_new_session=True,  # Ctrl-C of the terminal is for this process alone
            )
        self._watchdog.add(process.pid)
        theirs.close()
        self._members.append(Remote(part, name, process, ours))
        with contextlib.suppress(OSError):  # it is gone, which `wait_until_ready` tells
            _send(self._members[-1].stream, order)
        return self._members[-1]

    def close(self, grace_s: float = 0.0) -> None:
        """End all of them and what they started; may be called twice.

        Processes that have nothing to do get ``grace_s`` to leave as any Python program does.
        """
        members, self._members = self._members, []
        for member in members:
            member.dismiss()
        deadline_s = time.monotonic() + grace_s
        for member in members:
            member.kill(max(deadline_s - time.monotonic(), 0.0))
        if not self._closed:
            self._closed = True
            self._watchdog.close()


class Remote:
    """Does in a process what `Collecting` or `Evaluating` does here; one call at a time."""

    def __init__(
        self, part: Part, name: str, process: subprocess.Popen[bytes], link: socket.socket
    ) -> None:
        self.name = f"{name} (process {process.pid})"
        self.method = Collecting.method if part == "collector" else Evaluating.method
        self.pid = process.pid
        self._process, self._link, self._sent = process, link, -1
        self.stream = cast("BinaryIO", link.makefile("rwb"))

    def wait_until_ready(self, timeout_s: float | None) -> frozenset[str]:
        """Wait until the part is made; returns the names of what it has.

        Raises:
            ConfigError: It lacks a method.
            NodeFailed: Its factory raised or took longer, or the process is gone.
        """
        self._link.settimeout(timeout_s)
        names: frozenset[str] = self._take("its factory")
        self._link.settimeout(None)
        return names

    def __call__(self, weights: Weights | None, train_iter: int, envstep: int) -> Any:
        """One unit of work; ``weights.state`` is pickled already.

        Raises:
            NodeFailed: It raised, with its traceback; or the process is gone.
        """
        new = weights if weights is not None and weights.version != self._sent else None
        with contextlib.suppress(OSError):  # it is gone, which `_take` tells
            _send(self.stream, pickle.dumps((new, train_iter, envstep)))
        result = self._take(f"{self.method}()")
        self._sent = self._sent if weights is None else weights.version
        return result

    def _take(self, doing: str) -> Any:
        try:
            good, answer = pickle.load(self.stream)
        except TimeoutError as error:
            raise NodeFailed(
                f"{self.name} did not come back from {doing} within {self._link.gettimeout():g} s "
                "(work_timeout_s)"
            ) from error
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise NodeFailed(f"{self.name} {self._end()} in {doing}") from error
        if good:
            return answer
        cause, text = answer
        if isinstance(cause, ConfigError):
            raise cause
        raise NodeFailed(f"{self.name} raised in {doing}:\n{text}") from cause

    def _end(self) -> str:
        try:
            return describe_exit(self._process.wait(_REAP_S))
        except subprocess.TimeoutExpired:
            return "does not answer"

    def dismiss(self) -> None:
        """Let it leave when it has nothing to do, and a thread that waits for it go on."""
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def kill(self, grace_s: float) -> None:
        """End it and all of its process group, itself after ``grace_s``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._link.close()  # a thread may still read the stream, which keeps it open till then


def _send(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
    stream.flush()


# --- in the process ------------------------------------------------------------------------------


def serve(descriptor: int, parent: int) -> None:
    """Make the part and do its work until the other side is gone."""
    die_with_parent(parent)
    link = socket.socket(fileno=descriptor)
    os.set_inheritable(descriptor, False)  # a simulator's own programs have no use for it
    stream = cast("BinaryIO", link.makefile("rwb"))
    with contextlib.suppress(EOFError, OSError):
        part, name, factory, rank, seed = pickle.load(stream)
        made: list[Collecting | Evaluating] = []

        def make() -> frozenset[str]:
            made.append(_make(part, name, factory, rank, seed))
            return frozenset(dir(made[0].host))

        if _answer(stream, make):
            weights: Weights | None = None
            while True:
                new, train_iter, envstep = pickle.load(stream)
                if new is not None:
                    weights = Weights(new.version, pickle.loads(new.state))
                _answer(stream, functools.partial(made[0], weights, train_iter, envstep))


def _make(part: Part, name: str, factory: Host, rank: int, seed: int) -> Collecting | Evaluating:
    host = factory(rank, seed)
    loads = ("load_weights", "it is in a process of its own, where the learner's model is not")
    check(host, part, name, [loads])
    return Collecting(host) if part == "collector" else Evaluating(host)


def _answer(stream: BinaryIO, work: Callable[[], object]) -> bool:
    """Send what ``work`` gives, or what it raises; returns whether it was the former."""
    try:
        data, good = cloudpickle.dumps((True, work())), True
    except BaseException as error:  # the end of a process of the user's code
        text, good = traceback.format_exc(), False
        try:
            data = cloudpickle.dumps((False, (error, text)))
            pickle.loads(data)  # some errors can be pickled and not be made again
        except Exception:
            data = pickle.dumps((False, (None, text)))
    _send(stream, data)
    return good
