"""Children before they have their plan: what the probe saw, who is there, who is not any more."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable

import msgspec

from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.errors import ConfigError, NodeFailed
from fast_core.launcher.processes.start import ProbeStart
from fast_core.launcher.processes.tree import Child, ProcessTree, tail, unframe
from fast_core.system.decoding import from_msgpack
from fast_core.system.interrupts import Interrupts
from fast_core.system.process_state import EXEC, command_line
from fast_core.system.watched import describe_exit

PROBE = "probe"
# How long the news of a child's death may take from the kernel through the fork server.
EXIT_NEWS_S = 0.5
LATE_NEWS_S = 10.0  # on a busy machine, of one that is known to be gone
# Whoever signals every process of a job reaches the launcher this much later at most.
SIGNAL_NEWS_S = 0.1


class LostEarly(NodeFailed):
    """A node is gone that has not got its plan yet.

    Attributes:
        node: Its name.
    """

    def __init__(self, node: str, message: str) -> None:
        super().__init__(message)
        self.node = node


class ProbeAnswer(msgspec.Struct):
    """What the probe process sends."""

    spec: EnvironmentSpec | None = None
    made_s: float = 0.0
    config_error: str = ""
    error: str = ""
    traceback: str = ""


def ask_probe(
    tree: ProcessTree, child: Child, start: ProbeStart, interrupts: Interrupts, timeout_s: float
) -> tuple[EnvironmentSpec, float]:
    """Let the probe process look at the environment.

    Returns:
        What it is like, and how long one took to be made and reset.

    Raises:
        ConfigError: The environment can't be made or is of an unsupported kind.
        NodeFailed: The environment's code failed, crashed or took longer than ``timeout_s``, or
            a process that waits for its plan died.
        Interrupted: A signal came meanwhile.
    """
    await_started(tree, (child,), interrupts, timeout_s)
    # Of its own, because the tree closes the link of a child that is gone, read or not.
    with open("/dev/null", "rb") as nothing, child.link.dup() as link:
        give(tree, child, start, nothing.fileno(), interrupts)  # every child gets a descriptor
        deadline_s = time.monotonic() + timeout_s
        answer = await_answer(tree, child, link, interrupts, deadline_s)
    if answer is None and child.status is None and time.monotonic() < deadline_s:
        if program := command_line(child.pid):  # it has closed its end and lives
            raise NodeFailed(
                f"the process that looked at environment {start.environment.id!r} executes another "
                f"program in its place: {program!r}. {EXEC}"
            )
        tree.wait_for_exit(child, time.monotonic() + LATE_NEWS_S)
    if answer is None and child.status is None:
        raise NodeFailed(
            f"{_above(tree.stack(child, tree.log))}"
            f"environment {start.environment.id!r} was not made, reset and stepped within "
            f"{timeout_s:g} s (supervision.start_timeout_s)"
        )
    if answer is None:
        raise _probe_death(tree, child, start)
    result = from_msgpack(answer, ProbeAnswer)
    if result.config_error:
        own = f"the environment raised:\n{result.traceback}" if result.traceback else ""
        raise ConfigError(own + result.config_error)
    if result.spec is None:
        raise NodeFailed(
            f"{result.traceback}environment {start.environment.id!r} failed while it was looked "
            f"at: {result.error}"
        )
    return result.spec, result.made_s


def _probe_death(tree: ProcessTree, child: Child, start: ProbeStart) -> NodeFailed:
    """The error for a probe that is gone without an answer."""
    said = (
        f"the process that looked at environment {start.environment.id!r} "
        f"{describe_exit(child.status)}"
    )
    printed = tail(tree.log)
    if "most recent call first" in printed:
        said += (
            f"; its stack is above. A reset, step or close may take "
            f"{start.environment.step_timeout_s} s (environment.step_timeout_s)"
        )
    else:
        said += " and left no stack: its own code, or a library it uses, ended the process"
    return NodeFailed(f"{_above(printed)}{said}")


def _above(printed: str) -> str:
    return f"{printed}\n" if printed else ""


def await_answer(
    tree: ProcessTree,
    child: Child,
    link: socket.socket,
    interrupts: Interrupts,
    deadline_s: float,
) -> bytes | None:
    """What ``child`` sends; None if it is gone without, or the monotonic ``deadline_s`` is over."""
    # The probe has gone in peace when others are asked.
    others = [each for each in tree.children.values() if each not in (child, tree.children[PROBE])]
    received = b""
    while (answer := unframe(received)) is None:
        left_s = deadline_s - time.monotonic() if child.status is None else 0.0
        sources = [link.fileno(), tree.fileno(), interrupts.fileno()]
        readable, _, _ = select.select(sources, [], [], max(0.0, left_s))
        interrupts.check()
        if link.fileno() in readable:  # before the news of its end
            try:
                data = link.recv(1 << 20)
            except ConnectionResetError:  # it died with the question unread
                data = b""
            if not data:
                tree.wait_for_exit(child, time.monotonic() + EXIT_NEWS_S)
                return None
            received += data
        elif tree.fileno() in readable:
            tree.poll()
            _check_alive(others, interrupts)
        elif left_s <= 0:
            return None
    return answer


def await_started(
    tree: ProcessTree, children: Iterable[Child], interrupts: Interrupts, timeout_s: float
) -> None:
    """Wait until the fork server has forked every one of ``children``.

    It forks when its imports are done, which a user's modules may make long.

    Raises:
        NodeFailed: The fork server or a child died, or the server imports for longer than
            ``timeout_s``.
        Interrupted: A signal came meanwhile.
    """
    children, deadline_s = list(children), time.monotonic() + timeout_s
    _check_alive(children, interrupts)
    while not all(child.pid for child in children):
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise NodeFailed(
                f"{_above(tree.stack(None, tree.log))}"
                f"the fork server has not finished importing {', '.join(tree.preload)} within "
                f"{timeout_s:g} s (supervision.start_timeout_s); its output is in "
                "logs/fork-server.log"
            )
        select.select([tree.fileno(), interrupts.fileno()], [], [], left_s)
        interrupts.check()
        tree.poll()
        _check_alive(children, interrupts)


def _check_alive(children: Iterable[Child], interrupts: Interrupts) -> None:
    """Raise for the first of ``children``, which nothing has told to end, that is gone."""
    for child in children:
        if child.status is not None:
            raise _early_end(child, interrupts)


def _early_end(child: Child, interrupts: Interrupts) -> LostEarly:
    """The error for a child that did not live until the run began.

    Raises:
        Interrupted: It died of a signal that was sent to the launcher too.
    """
    select.select([interrupts.fileno()], [], [], SIGNAL_NEWS_S)
    interrupts.check()
    return LostEarly(
        child.name,
        f"{child.name} {describe_exit(child.status)} before the run began; its output is in "
        "logs/fork-server.log",
    )


def give(
    tree: ProcessTree, child: Child, value: object, descriptor: int, interrupts: Interrupts
) -> None:
    """Give a child its start-up value.

    Raises:
        NodeFailed: It is gone; tells how it died.
        Interrupted: It died of a signal that was sent to the launcher too.
    """
    try:
        child.give(value, descriptor)
    except NodeFailed as error:
        tree.wait_for_exit(child, time.monotonic() + EXIT_NEWS_S)
        if child.status is None:
            raise LostEarly(child.name, str(error)) from error
        raise _early_end(child, interrupts) from error
