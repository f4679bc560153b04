"""The other end of the control socket at which a run listens: asks, and waits for what comes."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from fast_core.errors import ConfigError, TransportError
from fast_core.messages.requests import (
    Answer,
    Request,
    SaveRequest,
    ScaleRequest,
    Status,
    StatusRequest,
    StopRequest,
    decode_answer,
    encode,
)
from fast_core.monitor.checkpoint_files import complete_names
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import holder
from fast_core.system import remains
from fast_core.system.process_state import is_stopped

SOCKET = "control"  # in the run's private folder
ANSWER_S = 10.0  # for the first answer: the launcher does nothing else for as long
_POLL_S = 0.02
_PACKET = 65_536
_LONGEST = 1 << 22  # bytes of an answer; one that names a thousand nodes has a twentieth


def find(run: RunDirectory) -> Path | None:
    """Where a run listens, or did; None if nothing says it."""
    with contextlib.suppress(OSError):
        return Path(os.readlink(run.control))
    for folder, _ in remains.folders():
        if remains.run_of(folder) == str(run.path.resolve()):
            return Path(folder) / SOCKET
    return None


def stop(run: RunDirectory, *, wait: bool = True) -> None:
    """End a run in order, as Ctrl-C does, and wait until its process has let go of it.

    Raises:
        ConfigError: It does not run, or nobody answers.
    """
    pid = holder(run.lock_file)
    for answer in ask(run, StopRequest()):
        _check(run, answer)
        if not wait:
            return
    while wait and pid is not None and holder(run.lock_file) == pid:
        time.sleep(_POLL_S)


def status(path: Path, within_s: float) -> Status | None:
    """How the run is that listens at ``path``; raises as `exchange` does."""
    return next((answer.status for answer in exchange(path, StatusRequest(), within_s)), None)


def scale(run: RunDirectory, kind: str, count: int, *, relative: bool, wait: bool = True) -> Answer:
    """Have nodes come or go in a run; returns how many there are, once it is so.

    Raises:
        ConfigError: The run does not go on, or it can't be done; says what is allowed.
    """
    return _outcome(run, ScaleRequest(kind, count, relative=relative), wait, "that")


def save(run: RunDirectory, *, wait: bool = True) -> Answer:
    """Have a run write a checkpoint; returns where it is, once it is there.

    Raises:
        ConfigError: The run does not go on, can't be saved, or ended before it was.
    """
    return _outcome(run, SaveRequest(), wait, "it was saved")


def _outcome(run: RunDirectory, request: Request, wait: bool, what: str) -> Answer:
    """What comes of a request in the end, or at once unless one is to ``wait``."""
    for answer in ask(run, request):
        _check(run, answer)
        if answer.kind == "done" or not wait:
            return answer
    raise ConfigError(f"the run {str(run.path)!r} was killed before {what}. {_advice(run)}")


def ask(run: RunDirectory, request: Request) -> Iterator[Answer]:
    """What a run answers, until it is done or has ended.

    Raises:
        ConfigError: It does not run, or nobody answers.
    """
    path, pid = find(run), holder(run.lock_file)
    try:
        if path is None:
            raise FileNotFoundError
        if pid is not None and is_stopped(pid):
            raise TransportError(
                f"its process {pid} is stopped (Ctrl-Z, SIGSTOP or a debugger). `fg` where it was "
                f"started, or `kill -CONT {pid}`, lets it go on"
            )
        yield from exchange(path, request)
    except TransportError as error:
        raise ConfigError(f"the run {str(run.path)!r} can't be asked: {error}") from error
    except OSError as error:
        raise ConfigError(_unreachable(run)) from error


def exchange(path: Path, request: Request, within_s: float = ANSWER_S) -> Iterator[Answer]:
    """The same over a socket that is known, with the first answer ``within_s``.

    Raises:
        TransportError: Nothing that can be read came, or not even a first answer in time.
        OSError: Nobody listens there.
    """
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(within_s)
        link.connect(str(path))
        link.sendall(encode(request))
        received = b""
        while True:
            try:
                data = link.recv(_PACKET)
            except TimeoutError as error:
                raise TransportError(
                    f"its process has not answered within {within_s:g} s"
                ) from error
            except ConnectionError:  # it was killed
                return
            if not data:
                return
            *lines, received = (received + data).split(b"\n")
            if len(received) > _LONGEST:
                raise TransportError(f"it answers with a line of more than {_LONGEST:,} bytes")
            for line in lines:
                answer = decode_answer(line)
                yield answer
                if answer.kind != "accepted":
                    return
                link.settimeout(None)


def _check(run: RunDirectory, answer: Answer) -> None:
    if answer.kind == "refused":
        raise ConfigError(f"the run {str(run.path)!r} refuses: {answer.text}")


def _unreachable(run: RunDirectory) -> str:
    pid = holder(run.lock_file)
    if pid is not None:
        return (
            f"the run {str(run.path)!r} can't be asked: process {pid} has it, and is starting or "
            f"ending, or can have no socket. Try again in a moment; `kill -INT {pid}` ends it in "
            "order too."
        )
    how = "was killed" if os.path.lexists(run.control) else "does not run"
    return f"the run {str(run.path)!r} {how}. {_advice(run)}"


def _advice(run: RunDirectory) -> str:
    if complete_names(run.checkpoints):
        return f"`{resume_command(run)}` goes on with it."
    return "It has no checkpoint to go on from."


def resume_command(run: RunDirectory) -> str:
    """What to type to go on with a run."""
    return shlex.join(["fastloop", "resume", short(run.path)])


def short(path: Path) -> str:
    """A path as it is typed in the current folder."""
    with contextlib.suppress(OSError, ValueError):
        return str(path.relative_to(os.getcwd()))
    return str(path)
