"""What a process writes to TensorBoard, carried to the process that has the file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Recorder:
    """Takes the calls of a SummaryWriter. One file has one writer, so it writes nothing itself."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever adds something, by its name."""
        if not name.startswith("add_"):
            raise AttributeError(name)
        return functools.partial(self._keep, name)

    def _keep(self, name: str, *arguments: Any, **keywords: Any) -> None:
        self._calls.append((name, arguments, keywords))

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> list[Call]:
        """The calls since it was asked last."""
        calls, self._calls = self._calls, []
        return calls


def replay(calls: Iterable[Call], writer: Any) -> None:
    """Make the calls on ``writer``; None writes nothing."""
    if writer is not None:
        for name, arguments, keywords in calls:
            getattr(writer, name)(*arguments, **keywords)
