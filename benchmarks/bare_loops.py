"""Loops in processes of their own that count env steps, for what FastLoop is compared with."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier

SETTLED_S = 0.5
START_LIMIT_S = 60.0
Loop = Callable[..., None]


def bare_rate(loop: Loop, arguments: Sequence[tuple[object, ...]], seconds: float) -> float:
    """Env steps per second of all loops together, once all are running.

    Args:
        loop: Runs for ever; called with its arguments, its counter and a barrier to wait at
            when it is ready. Adds every step to the counter.
        arguments: Those of each loop.
        seconds: How long to count.
    """
    context = multiprocessing.get_context("spawn")
    counters: list[Synchronized[int]] = [context.Value("q", 0, lock=False) for _ in arguments]
    barrier: Barrier = context.Barrier(len(arguments) + 1)
    loops = [
        context.Process(target=loop, args=(*given, counter, barrier), daemon=True)
        for given, counter in zip(arguments, counters, strict=True)
    ]
    for each in loops:
        each.start()
    try:
        barrier.wait(START_LIMIT_S)
        time.sleep(SETTLED_S)
        first, first_s = sum(c.value for c in counters), time.perf_counter()
        time.sleep(seconds)
        last, last_s = sum(c.value for c in counters), time.perf_counter()
    finally:
        for each in loops:
            each.kill()
            each.join()
    return (last - first) / (last_s - first_s)
