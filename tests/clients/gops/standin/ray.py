"""Ray's calls that GOPS makes, answered at once in the process that asks.

What an actor draws is its own, as in a process of its own.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch


class _Actor:
    def __init__(self, made: Any) -> None:
        self._made = made

    def __getattr__(self, name: str) -> _Remote:
        return _Remote(getattr(self._made, name))


class _Remote:
    def __init__(self, called: Callable[..., Any]) -> None:
        self._called = called

    def remote(self, *arguments: Any, **keywords: Any) -> Any:
        with _apart():
            made = self._called(*arguments, **keywords)
        return _Actor(made) if isinstance(self._called, type) else made


@contextlib.contextmanager
def _apart() -> Iterator[None]:
    numbers, drawn = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng():
        yield
    random.setstate(numbers)
    np.random.set_state(drawn)  # noqa: NPY002


def init(*arguments: Any, **keywords: Any) -> None:
    pass


def remote(*arguments: Any, **keywords: Any) -> Any:
    return _Remote(*arguments) if arguments else _Remote


def get(value: Any) -> Any:
    return value
