"""How an optimizer turns the batches it is given into steps, without ever waiting.

`Alone` is one optimizer. Several average their gradients (`averaging`) or hand them to the first
one (`async_steps`).
"""

from __future__ import annotations

from collections import deque
from typing import Protocol, cast

from fast_core.algorithm import Algorithm, ReplayBatch, SharedAlgorithm, UpdateReport
from fast_core.nodes.learn.async_steps import Owner, Worker
from fast_core.nodes.learn.averaging import CHECK_EVERY, Averaging, Exchange, SharedExchange
from fast_core.nodes.learn.batches import NOTHING_DRAWN, Batches, Stepper
from fast_core.nodes.learn.contract import checked_report, queueing
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan


class ReplayUpdate(Protocol):
    """What `Alone` needs of an `fast_core.algorithm.Algorithm` that learns from replay."""

    def update(self, batch: ReplayBatch) -> UpdateReport | None:
        """Take one optimizer step; who reports nothing is refused."""
        ...


class AtOnce:
    """A learner that has `update` alone; implements `fast_core.algorithm.Queueing`."""

    ahead = 1

    def __init__(self, algorithm: ReplayUpdate) -> None:
        self._algorithm = algorithm
        self._report: UpdateReport | None = None

    def begin(self, batch: ReplayBatch) -> None:
        """Take one whole step."""
        report = self._algorithm.update(batch)
        if report is None:  # which would say that it goes on
            checked_report(cast(UpdateReport, report))
        self._report = report

    def finished(self) -> UpdateReport | None:
        """What came of it."""
        report, self._report = self._report, None
        return report


class Alone(Stepper):
    """One optimizer.

    Args:
        algorithm: The learner.
        batches: What it learns from.
    """

    def __init__(self, algorithm: ReplayUpdate, batches: Batches) -> None:
        self._learner, self._batches = queueing(algorithm) or AtOnce(algorithm), batches
        self._begun: deque[int] = deque()  # rows of each batch that is not finished

    @property
    def pending(self) -> bool:
        """Whether a step was begun and is not over."""
        return bool(self._begun)

    @property
    def asks(self) -> bool:
        """As long as a step is pending: no device rings."""
        return self.pending

    def advance(self) -> UpdateReport | None:
        """Begin what the learner takes, and see whether the oldest step is over."""
        self._begin()
        if not self._begun:
            return None
        report = NOTHING_DRAWN
        if self._begun[0]:
            found = self._learner.finished()
            if found is None:
                return None
            report = checked_report(found, steps=1)
        self._begun.popleft()
        self._batches.finish(report.priority, report.extra)
        return report

    def _begin(self) -> None:
        while len(self._begun) < self._learner.ahead:
            batch = self._batches.next(len(self._begun))
            if batch is None:
                return
            if rows := len(batch.reward):
                self._learner.begin(batch)
            self._begun.append(rows)


def make_stepper(
    plan: RunPlan, memory: RunMemory, rank: int, algorithm: Algorithm, batches: Batches
) -> Stepper:
    """What takes the steps of the optimizer ``rank``, with a restored ``algorithm``."""
    if plan.optimizers == 1:
        return Alone(cast(ReplayUpdate, algorithm), batches)
    shared = cast(SharedAlgorithm, algorithm)
    if plan.averages:
        every = 1 if plan.config.diagnostics.digests else CHECK_EVERY
        return Averaging(shared, batches, _exchange(plan, memory, rank), check_every=every)
    if rank == 0:
        return Owner(plan, memory, shared, batches)
    return Worker(plan, memory, rank, shared, batches)


def _exchange(plan: RunPlan, memory: RunMemory, rank: int) -> Exchange:
    optimizer = plan.config.nodes.optimizer
    if optimizer.collective != "shared" and (
        optimizer.collective != "auto" or optimizer.device != "cpu"
    ):
        # Imported here because it costs a second or two and 200 MB.
        from fast_core.nodes.learn.collective import CollectiveExchange, chosen_collective

        chosen = chosen_collective(plan)
        if chosen != "shared":
            return CollectiveExchange(plan, memory, rank, chosen)
    return SharedExchange(plan, memory, rank)
