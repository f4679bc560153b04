"""Kills a node at a named point of the hand-over between env and policy nodes.

A run that names this module in ``environment.modules`` imports it in the fork server; the
environment variable `VARIABLE` says ``NODE:POINT``, for instance ``policy-0:published``. The node
dies at the `HITS`-th time it gets there, in every life of it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import setproctitle

from fast_core.memory import Doorbell, Mailbox
from fast_core.nodes.act import policy
from fast_core.nodes.collect import asking

VARIABLE = "FASTLOOP_TEST_POINT"
HITS = 40

POINTS = (
    *("env-0:half published", "env-0:published", "env-0:reply found"),
    *("policy-0:request taken", "policy-0:half published", "policy-0:published", "policy-0:rung"),
)

_hits = 0


def _arrive(point: str) -> None:
    """Die here if this is the node and the point, and it is time."""
    global _hits
    node, _, asked = os.environ.get(VARIABLE, "").partition(":")
    if asked != point or not setproctitle.getproctitle().startswith(f"fastloop: {node} "):
        return
    _hits += 1
    if _hits == HITS:
        os.kill(os.getpid(), signal.SIGKILL)


class _Words:
    """The words of a mailbox, with a point before the last store."""

    def __init__(self, words: Any) -> None:
        self.load = words.load
        self._store = words.store

    def store(self, index: int, value: int) -> None:
        if index == 0:
            _arrive("half published")
        self._store(index, value)


def _publish(box: Mailbox[Any], number: int, words: Any) -> None:
    if not isinstance(box._native, _Words):
        watched: Any = _Words(box._native)
        box._native = watched
    _real_publish(box, number, words)
    _arrive("published")


def _after(function: Callable[..., Any], point: str) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        _arrive(point)
        return result

    return called


class _Bell:
    """A doorbell with a point after it was rung."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell

    def ring(self) -> None:
        self._bell.ring()
        _arrive("rung")


def _found(line: asking.Line) -> bool:
    found = _real_answered(line)
    if found:
        _arrive("reply found")
    return found


def _watched_line(line: asking.Line, *arguments: Any) -> None:
    _real_line(line, *arguments)
    bell: Any = _Bell(line._bells[0])
    line._bells[0] = bell


if VARIABLE in os.environ:
    _real_publish, _real_answered = Mailbox.publish, asking.Line.answered
    _real_line, _real_bell = asking.Line.__init__, policy.PolicyNode._bell
    Mailbox.publish = _publish  # type: ignore[method-assign,assignment]
    asking.Line.answered = _found  # type: ignore[method-assign]
    asking.Line.__init__ = _watched_line  # type: ignore[method-assign]
    policy.Inquirer.take = _after(policy.Inquirer.take, "request taken")  # type: ignore[method-assign]
    policy.PolicyNode._bell = (  # type: ignore[method-assign,assignment]
        lambda node, rank: _Bell(_real_bell(node, rank))
    )
