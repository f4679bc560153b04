"""Whole states of a learner, kept for the versions that may yet turn out to be the best."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Snapshots:
    """Keeps what is evaluated, and what may be next.

    An evaluation acts with the model alone, and a checkpoint holds targets and optimizer too. By
    the time that the score is known the learner has gone on. Copies are taken of versions alone
    with which an evaluation may begin: when one is wanted, and of all that are handed out until it
    has begun.

    Concurrency: `want` and `publish` are called by the learner's thread, `of` by the evaluator's.
    An evaluation begins with the last weights that could be had, of which the copy is either the
    newest or, if others are about to be handed out, the one before it.

    Attributes:
        standing: Tells whether an evaluation is wanted that has not begun, and the version of the
            one that runs.
    """

    def __init__(self, take: Callable[[], Any]) -> None:
        """``take`` copies the learner's state of now."""
        self.standing: Callable[[], tuple[bool, int | None]] = lambda: (False, None)
        self._take, self._lock = take, threading.Lock()
        self._states: dict[int, Any] = {}  # oldest first

    def want(self, version: int) -> None:
        """An evaluation of ``version``, the one of now, is about to be wanted."""
        if version not in self._states:
            state = self._take()
            _, running = self.standing()
            with self._lock:
                self._states[version] = state
                kept = {running, *list(self._states)[-2:]}
                self._states = {v: each for v, each in self._states.items() if v in kept}

    def publish(self, version: int) -> None:
        """Weights of ``version``, those of now, are about to be handed out."""
        wanted, _ = self.standing()
        if wanted:
            self.want(version)

    def of(self, version: int) -> Any:
        """The state of a version that is being evaluated."""
        with self._lock:
            return self._states[version]
