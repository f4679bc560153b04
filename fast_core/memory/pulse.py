"""A process's sign of life, which needs no interpreter lock."""

from __future__ import annotations

from typing import Self

from fast_core.memory import _native

PULSE_PERIOD_S = 0.25


class Pulse(_native.Pulse):
    """A thread of the native core that counts in a word, four times a second, until ``close``.

    It counts while a call holds the interpreter lock, and goes on from what stands in the word, so
    the next process of a node goes on from there. A process that is stopped, gone or executes
    another program stops counting; what it forks never begins.

    Concurrency:
        The thread is the only writer; anybody reads. The word is aligned and never tears, nothing
        is published by it, and no order to other words is meant: only that it moves says anything.
        A dead writer leaves the last count.
    """

    __slots__ = ()

    @classmethod
    def begin(cls, word: memoryview) -> Self:
        """Count in ``word``, 64 bits; kept mapped until `close`.

        Raises:
            OSError: The system has no further thread for this process.
        """
        return cls(word, PULSE_PERIOD_S)
