"""What a test makes that holds memory is closed when the test ends, however it ends."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Protocol, TypeVar


class Closed(Protocol):
    """What can be closed."""

    def close(self) -> None: ...


T = TypeVar("T", bound=Closed)
# Of the test that runs; what is made outside of tests, as for a module, is closed by who made it.
_running: list[ExitStack] = []


def until_the_end(made: T) -> T:
    """The same, to be closed when the test ends; what was made last is closed first."""
    if _running:
        _running[-1].callback(made.close)
    return made


def of_a_test() -> ExitStack:
    """Around a test."""
    stack = ExitStack()
    _running.append(stack)
    stack.callback(_running.pop)
    return stack
