"""A word that anybody rings and one node sleeps on."""

from __future__ import annotations

from typing import Self

from fast_core.memory import _native


class Doorbell(_native.Doorbell):
    """Wakes the one node that owns it, whatever the reason.

    The owner reads ``value()``, checks every source of work, and calls ``wait(value)``: what came
    after the check has rung, so the wait does not sleep. ``ring()`` costs a system call only when
    the owner sleeps, and only the first time. ``wait`` returns whether the value differs from
    ``seen``; it releases the GIL and runs signal handlers, then goes on for the time that is left.

    Concurrency:
        Anybody adds to the word (32 bits, its wrap is harmless); only the owner writes the
        value that it sleeps on, so one thread waits at a time. Whoever moves the word away from
        that value wakes. A ringer killed before the fetch-add has not rung: whoever reaps it
        rings. One killed after it, before its wake call, delays the owner by at most a slice of
        its sleep, 0.2 s. A dead owner leaves nothing.
    """

    __slots__ = ()

    @staticmethod
    def nbytes() -> int:
        """Bytes of the region."""
        return _native.DOORBELL_NBYTES

    @classmethod
    def create(cls, memory: memoryview) -> Self:
        """Makes a doorbell in ``memory`` (aligned to 64) and attaches to it."""
        _native.doorbell_create(memory)
        return cls(memory)

    @classmethod
    def attach(cls, memory: memoryview) -> Self:
        """Attaches to the doorbell in ``memory``."""
        return cls(memory)

    def published(self) -> None:
        """Nothing ever is: it says when to look, not at what."""
