"""Bringing environments back to where they were: reset them, and take the same actions again."""

from __future__ import annotations

import resource
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import suppress

from fast_core.algorithm import Array
from fast_core.envs.instance import Instance
from fast_core.envs.records import Row
from fast_core.envs.stepping.batch import EnvBatch
from fast_core.envs.stepping.batch_state import OpenEpisode
from fast_core.envs.stepping.repetition import Repetition
from fast_core.envs.whereabouts import Whereabouts
from fast_core.errors import CheckpointError

SAMPLE_S = 0.1  # of stepping one alone, to see whether it computes or waits
TELL_S = 1.0
THREADS = 64


def restore(batch: EnvBatch, state: bytes, obs: Array) -> dict[int, str]:
    """Bring ``batch`` back to ``state``, its environments one after the other.

    See `EnvBatch.begin_restore` and `EnvBatch.end_restore`.
    """
    for repetition in batch.begin_restore(state):
        repetition.take()
    return batch.end_restore(obs)


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


def repeat_episode(
    instance: Instance, row: Row, saved: OpenEpisode, actions: Iterable[object]
) -> Iterator[None]:
    """Bring ``instance`` to where ``saved`` was, a step each time; ``row`` gets the observation.

    The caller compares the observation.

    Raises:
        CheckpointError: The episode ended early or its rewards differ.
        EnvironmentFailed: The environment raised or gave what its spaces do not declare.
    """
    instance.attributes = saved.attributes
    instance.reset(row, episode=saved.episode, seed=saved.seed, start=saved.start)
    total = 0.0
    for number, action in enumerate(actions, start=1):
        reward, terminated, truncated = instance.checked_step(
            row, action, number=number, episode=saved.episode, seed=saved.seed
        )
        total += reward
        if terminated or truncated:
            raise not_repeated(instance, saved, f"the episode ended at step {number}")
        yield
    if total != saved.total:
        raise not_repeated(instance, saved, f"the rewards add up to {total!r}, not {saved.total!r}")


def not_repeated(place: Instance | Whereabouts, saved: OpenEpisode, what: str) -> CheckpointError:
    """The error for an environment that did not come back to where it was."""
    failure = place.failure("to come back", what, saved.episode, saved.seed)
    return CheckpointError(
        f"{failure} when the {saved.length} actions of its open episode were taken again. An "
        "exact resume needs an environment whose randomness all comes from the seed given to "
        "reset, and the same versions of its packages."
    )
