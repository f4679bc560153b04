"""Bringing environments back to where they were: reset them, and take the same actions again."""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress

from fast_core.envs.stepping.batch_state import OpenEpisode
from fast_core.envs.whereabouts import Whereabouts
from fast_core.errors import CheckpointError, EnvironmentFailed, NodeFailed

SAMPLE_S = 0.1  # of stepping one alone, to see whether it computes or waits
TELL_S = 1.0
THREADS = 64


class Repetition:
    """One environment, or several that are stepped together, on the way to where they were.

    Attributes:
        steps: Steps to take.
        taken: Steps taken.
        why: Why it did not come back, empty if it did.
        raised: Whether it did not because the environment raised.
    """

    def __init__(self, steps: int, attempt: Callable[[], Iterator[None]]) -> None:
        """``attempt`` begins anew and takes a step each time; it raises where something differs."""
        self.steps, self.taken = steps, 0
        self.why, self.raised = "its actions were not taken again", False
        self._attempt = attempt

    def take(self, stepped: Callable[[], None] = lambda: None) -> None:
        """Take all steps; ``stepped`` is called after each.

        Raises:
            EnvironmentFailed: A limit or Ctrl-C got it out of a call, which inline is done so.
        """
        self.taken, self.why, self.raised = 0, "", False
        try:
            for _ in self._attempt():
                self.taken += 1
                stepped()
        except EnvironmentFailed as error:
            if isinstance(error.__cause__, NodeFailed | KeyboardInterrupt):
                raise
            self.why, self.raised = str(error), True
        except CheckpointError as error:
            self.why = str(error)


class _Stopped(Exception):
    """The run ends; nobody waits for what is left."""


class Together:
    """Takes repetitions in this thread, or side by side where their environments wait.

    A simulator in a process or machine of its own, or one that keeps to real time, waits in each
    step; threads help it, and nothing else is stepped outside the thread that made it. One that
    raises in a thread of its own gets another try in this one: it may be bound to it.
    """

    def __init__(
        self,
        repetitions: Iterable[Repetition],
        tell: Callable[[int], None],
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Nothing is taken yet.

        Args:
            repetitions: What is to be taken.
            tell: Gets the number of steps taken so far, about once a second, in this thread, if it
                has changed: who is told goes on waiting.
            stopping: Asked after each step, in any thread: whether to leave the rest.
        """
        self._all = sorted(repetitions, key=lambda each: -each.steps)
        self._waiting = deque(self._all)
        self._tell, self._told, self._told_s = tell, 0, time.monotonic()
        self._stopping = stopping
        self._futures: dict[Future[None], Repetition] = {}
        self._pool: ThreadPoolExecutor | None = None

    def run(self) -> None:
        """Take them all; what came of each stands in it."""
        with suppress(_Stopped):
            self._run()

    def _run(self) -> None:
        try:
            while self._waiting:
                self._sample()
                self._waiting.popleft().take(self._stepped)
            while wait_for(self._futures, TELL_S).not_done:
                self._tell_if_due()
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)
        for future, repetition in self._futures.items():
            future.result()
            if repetition.raised:
                repetition.take(self._stepped)

    def _sample(self) -> None:
        self._steps = 0
        self._begun_s, self._cpu_s = time.monotonic(), time.thread_time()
        self._waits = _waits()

    def _stepped(self) -> None:
        self._steps += 1
        self._check()
        self._tell_if_due()
        if self._waiting and self._waits_rather_than_computes():
            self._pool = ThreadPoolExecutor(min(THREADS, len(self._waiting)), "repeat")
            while self._waiting:
                repetition = self._waiting.popleft()
                self._futures[self._pool.submit(repetition.take, self._check)] = repetition

    def _waits_rather_than_computes(self) -> bool:
        """Whether each step gave the processor away, and it computed for less than half the time.

        On a busy machine time passes too, but then the processor is taken from it.
        """
        passed_s = time.monotonic() - self._begun_s
        if passed_s < SAMPLE_S or _waits() - self._waits < self._steps:
            return False
        return time.thread_time() - self._cpu_s < passed_s / 2

    def _check(self) -> None:
        if self._stopping():
            raise _Stopped

    def _tell_if_due(self) -> None:
        if time.monotonic() >= self._told_s + TELL_S:
            self._told_s = time.monotonic()
            before, self._told = self._told, sum(each.taken for each in self._all)
            if self._told != before:
                self._tell(self._told)


def _waits() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def not_repeated(place: Whereabouts, saved: OpenEpisode, what: str) -> CheckpointError:
    """The error for an environment that did not come back to where it was."""
    failure = place.failure("to come back", what, saved.episode, saved.seed)
    return CheckpointError(
        f"{failure} when the {saved.length} actions of its open episode were taken again. An "
        "exact resume needs an environment whose randomness all comes from the seed given to "
        "reset, and the same versions of its packages."
    )
