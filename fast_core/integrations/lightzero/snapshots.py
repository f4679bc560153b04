"""Whole states of a learner, kept for the versions that may yet turn out to be the best."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Snapshots:
    """Keeps what is evaluated, and what may be next.

    An evaluation acts with the model alone, and a checkpoint holds targets and optimizer too. By
    the time that the score is known the learner has gone on.

    Concurrency: `publish` is called by the learner's thread before the weights can be had, `begin`
    and `end` by the evaluator's. An evaluation begins with the last weights that could be had, of
    which a copy is either the newest or, if others are about to be published, the one before it.
    """

    def __init__(self, take: Callable[[], Any]) -> None:
        """``take`` copies the learner's state of now."""
        self._take, self._lock = take, threading.Lock()
        self._states: dict[int, Any] = {}  # oldest first
        self._running: int | None = None

    def publish(self, version: int) -> None:
        """Weights of ``version``, those of now, are about to be handed out."""
        state = self._take()
        with self._lock:
            self._states[version] = state
            kept = {self._running, *list(self._states)[-2:]}
            self._states = {v: each for v, each in self._states.items() if v in kept}

    def begin(self, version: int) -> None:
        """An evaluation of ``version`` begins."""
        with self._lock:
            self._running = version

    def end(self) -> Any:
        """It is over; returns the state that it was about."""
        with self._lock:
            version, self._running = self._running, None
            assert version is not None
            return self._states[version]
