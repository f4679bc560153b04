"""Several optimizers whose gradients the first one, the owner, applies as they come.

Each differentiates a batch of its own at the newest parameters it finds. A gradient that was
computed at ``base`` committed steps and is applied when there are ``committed`` has the staleness
``g = committed - base``; it is applied with ``1 / max(1, g)`` of the step size.

Source of the scale: Zhang et al. 2015, arXiv:1511.05950, equation 6.

**The bound.** No gradient is applied with ``g > limit``, and none is thrown away: who is faster
waits. What is being computed or waits to be applied is *in flight*, one gradient of each optimizer
at most. If those in flight are applied in the order of their bases ``b_1 <= b_2 <= ...``, the
``i``-th has the staleness ``committed + i - 1 - b_i``; the owner commits a step only if that keeps
all others within the limit. With ``limit >= K - 1`` every optimizer may begin at any time; below
that at most ``limit + 1`` are in flight, and workers ask before they begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import SharedAlgorithm, UpdateReport
from fast_core.memory import StatsColumn
from fast_core.nodes.learn.async_schedule import BEGUN, OwnerSchedule, WorkerSchedule
from fast_core.nodes.learn.batches import NOTHING_DRAWN, Batches, Stepper
from fast_core.nodes.learn.contract import checked_report
from fast_core.run.mail import Applied, Base, Gradient
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import networks_nbytes

F32 = NDArray[np.float32]
ASKING = -1  # instead of a base: a worker waits for leave to begin
NO_METRICS: dict[str, float] = {}


def staleness_limit(plan: RunPlan) -> int:
    """Most steps between the parameters of a gradient and its own step."""
    limit = plan.config.nodes.optimizer.max_gradient_staleness
    return plan.optimizers - 1 if limit is None else limit


def begins_freely(plan: RunPlan) -> bool:
    """Whether workers need not ask before they begin."""
    return staleness_limit(plan) >= plan.optimizers - 1


@dataclass(frozen=True)
class Arrived:
    """A gradient that waits for its step.

    Attributes:
        rank: Whose it is.
        base: Committed steps behind the parameters that it was computed at.
        gradient: ``[<= P]``; None if there was no batch.
        metrics: What its batch said, if that is known here.
    """

    rank: int
    base: int
    gradient: F32 | None
    metrics: dict[str, float]


class WorkerSeat:
    """The owner's view of one worker.

    Concurrency:
        The worker writes ``base`` (number of the batch, steps behind its parameters) before it
        computes and ``gradient`` when it is done; the owner writes ``applied`` when it has taken
        that step, and what it lets the worker begin. All numbers are stored last with release. A
        gradient is in flight while the base's number is above that of ``applied``, and stays
        where it is until then.

    Attributes:
        rank: The worker's.
        begun: Number of the last batch that it was let begin.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory, rank: int) -> None:
        """Attach to the mailboxes of the worker ``rank``."""
        self.rank = rank
        self._base, self._gradient = memory.base(rank), memory.gradient(rank)
        self._applied = memory.applied(rank)
        self._doorbell = memory.doorbell(plan.names.optimizers[rank])
        self._done = self.begun = 0
        self._let_begin_at = 0

    @property
    def asking(self) -> bool:
        """Whether it waits for leave to begin."""
        number = self._base.number()
        return number > max(self._done, self.begun) and self._base.words.steps == ASKING

    def let_begin(self, committed: int) -> None:
        """Let it compute the gradient it asks for."""
        self.begun, self._let_begin_at = self._base.number(), committed
        self._answer()

    @property
    def base(self) -> int | None:
        """At least so many steps are behind the parameters of its gradient in flight, if any."""
        number = self._base.number()
        if number == self._done or self.asking:
            return None
        # A worker that was let begin has not yet said at what.
        base = self._base.words.steps
        return self._let_begin_at if base == ASKING else base

    @property
    def arrived(self) -> Arrived | None:
        """Its gradient, if it is there."""
        if self._gradient.number() == self._done:
            return None
        said = self._gradient.words
        gradient = self._gradient["gradient"][0, : said.length] if said.length else None
        return Arrived(self.rank, said.base, gradient, NO_METRICS)

    @property
    def computed(self) -> int:
        """Number of its last gradient that is done."""
        return self._gradient.number()

    def take(self) -> None:
        """Say that the step of its gradient is over."""
        self._done += 1
        self._answer()

    def _answer(self) -> None:
        self._applied.publish(self._done, Applied(self.begun))
        self._doorbell.ring()


class Owner(Stepper):
    """The first optimizer.

    Args:
        plan: The plan of the run.
        memory: Its memory; this is the only writer of the networks' board.
        algorithm: The learner whose parameters all others differentiate at.
        batches: Its own batches.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, algorithm: SharedAlgorithm, batches: Batches
    ) -> None:
        self._algorithm, self._batches = algorithm, batches
        self._limit = staleness_limit(plan)
        self._seats = [WorkerSeat(plan, memory, rank) for rank in range(1, plan.optimizers)]
        size = networks_nbytes(plan) // 8
        self._gradient: F32 = np.empty(size, np.float32)
        self._networks: F32 = np.empty((2, size), np.float32)
        self._board = memory.networks()
        self._own: Arrived | None = None
        self._turn = 0  # own batches
        self._others_since = len(self._seats)  # gradients of others since the own last one began
        self._stats = memory.stats(plan.names.optimizers[0])
        self._schedule = OwnerSchedule(plan)
        self._publish()

    @property
    def pending(self) -> bool:
        """Whether the own gradient waits for its step."""
        return self._own is not None

    @property
    def committed(self) -> int:
        """Steps behind the parameters."""
        return self._algorithm.updates

    def advance(self) -> UpdateReport | None:
        """Apply one gradient, its own or another's, or differentiate a batch."""
        if self._schedule.follows:
            return self._follow()
        if self._others_since >= len(self._seats) and self._differentiate():
            return None
        for arrived in self._arrived():
            if self._may_step(arrived):
                return self._step(arrived)
        self._let_begin()
        self._differentiate()
        return None

    def _follow(self) -> UpdateReport | None:
        """Do what was recorded next, once it can be done; nothing else is asked for."""
        for seat in self._seats:
            if seat.asking:
                seat.let_begin(self.committed)
        rank = self._schedule.next(self.committed, [seat.computed for seat in self._seats])
        if rank == BEGUN:
            self._begin()
        elif rank is not None:
            found = self._own if rank == 0 else self._seats[rank - 1].arrived
            return None if found is None else self._step(found)
        return None

    def state(self) -> dict[str, object]:
        """How many batches were differentiated here, which says what is due in the next."""
        return {"turn": self._turn}

    def load(self, state: dict[str, object]) -> None:
        """Continue from `state`."""
        self._turn = int(str(state.get("turn", 0)))

    def close(self) -> None:
        """Write down the rest of what is recorded."""
        self._schedule.close()

    def _arrived(self) -> list[Arrived]:
        """What can be applied, the oldest parameters first; the own came last."""
        found = [arrived for seat in self._seats if (arrived := seat.arrived) is not None]
        own = [] if self._own is None else [self._own]
        return sorted(found + own, key=lambda arrived: arrived.base)

    def _in_flight(self, without: int | None = None) -> list[int]:
        """Bases of what is being computed or waits, oldest first."""
        return sorted(base for rank, base in self._bases() if rank != without)

    def _bases(self) -> Iterator[tuple[int, int]]:
        if self._own is not None:
            yield 0, self._own.base
        for seat in self._seats:
            base = seat.base
            if base is not None:
                yield seat.rank, base

    def _may_step(self, arrived: Arrived) -> bool:
        after = self.committed + 1
        bases = self._in_flight(without=arrived.rank)
        return all(after + i - base <= self._limit for i, base in enumerate(bases))

    def _step(self, arrived: Arrived) -> UpdateReport:
        staleness = self.committed - arrived.base
        assert staleness <= self._limit, f"bounded by {self._limit}; got {staleness}"
        report = NOTHING_DRAWN
        if arrived.gradient is not None:
            scale = 1.0 / max(1, staleness)
            applied = self._algorithm.apply(arrived.gradient, scale=scale)
            report = checked_report(applied, steps=1)
            report.metrics.update(arrived.metrics)
            report.metrics["gradient_staleness"] = float(staleness)
            words = self._stats.words
            words[StatsColumn.STALENESS_SUM] += staleness
            words[StatsColumn.STALENESS_MAX] = max(words[StatsColumn.STALENESS_MAX], staleness)
        if report.updates:
            self._publish()
        self._schedule.done(arrived.rank, report.updates)
        if arrived.rank == 0:
            self._own = None
        else:
            self._others_since += 1
            self._seats[arrived.rank - 1].take()
        return report

    def _publish(self) -> None:
        parameters, targets = self._algorithm.networks()
        self._networks[0], self._networks[1] = parameters, targets
        self._board.publish(self.committed, self._networks.data)

    def _let_begin(self) -> None:
        for seat in sorted(self._seats, key=lambda seat: seat.begun):  # in turn
            if seat.asking and len(self._in_flight()) <= self._limit:
                seat.let_begin(self.committed)

    def _differentiate(self) -> bool:
        """Begin the own next batch, if there is one and it may begin."""
        may_begin = self._own is None and len(self._in_flight()) <= self._limit
        return may_begin and self._begin()

    def _begin(self) -> bool:
        batch = self._batches.next()
        if batch is None:
            return False
        self._others_since = 0
        base, gradient, said = self.committed, None, NOTHING_DRAWN
        if len(batch.reward):
            self._turn += 1
            found = self._algorithm.gradient(batch, turn=self._turn)
            gradient = self._gradient[: len(found)]
            gradient[...] = found
            said = checked_report(self._algorithm.hand_over())
        self._own = Arrived(0, base, gradient, said.metrics)
        self._schedule.done(BEGUN)
        self._batches.finish(said.priority, said.extra)
        return True


class Worker(Stepper):
    """Another optimizer, which reports nothing.

    Concurrency:
        It says which parameters it takes, rings (a full fence), and only then reads them from the
        board. So the owner either sees that and keeps the bound, or is in the midst of a single
        step that began before, and the parameters read are no older than that step's beginning.

    Args:
        plan: The plan of the run.
        memory: Its memory.
        rank: Its rank, from 1.
        algorithm: A learner that differentiates; its own optimizers are never used.
        batches: Its own batches.
    """

    def __init__(
        self,
        plan: RunPlan,
        memory: RunMemory,
        rank: int,
        algorithm: SharedAlgorithm,
        batches: Batches,
    ) -> None:
        self._algorithm, self._batches = algorithm, batches
        self._base, self._gradient = memory.base(rank), memory.gradient(rank)
        self._applied = memory.applied(rank)
        self._owner = memory.doorbell(plan.names.optimizers[0])
        self._board = memory.networks()
        self._networks: F32 = np.empty((2, networks_nbytes(plan) // 8), np.float32)
        self._asks = not begins_freely(plan)
        self._version = -1
        self._number = 0  # batches that were begun in this part of the run
        self._turn = rank  # so that not all have the same parts due at the same time
        self._in_flight = self._asked = False
        self._schedule = WorkerSchedule(plan, rank)

    @property
    def pending(self) -> bool:
        """Whether a gradient was handed to the owner, or asked for, and its step is not over."""
        return self._in_flight or self._asked

    def advance(self) -> UpdateReport | None:
        """Differentiate a batch, or see that the step of the last one is over."""
        if self._in_flight:
            self._in_flight = self._applied.number() != self._number
            return None
        if self._board.version() < 0 or self._batches.next() is None:
            return None
        if self._may_begin() and self._schedule.may_begin(self._board.version()):
            self._differentiate()
        return None

    def state(self) -> dict[str, object]:
        """How many batches were differentiated here, which says what is due in the next."""
        return {"turn": self._turn}

    def load(self, state: dict[str, object]) -> None:
        """Continue from `state`."""
        self._turn = int(str(state.get("turn", self._turn)))

    def close(self) -> None:
        """Write down the rest of what is recorded."""
        self._schedule.close()

    def _may_begin(self) -> bool:
        if not self._asks:
            return True
        if not self._asked:
            self._say(ASKING)
            self._asked = True
        return self._applied.words.begun == self._number + 1

    def _say(self, base: int) -> None:
        self._base.publish(self._number + 1, Base(base))
        self._owner.ring()

    def _differentiate(self) -> None:
        if not self._asks:
            self._say(self._board.version())
        version = self._board.read_into(self._networks.data, newer_than=self._version)
        if version != self._version:
            self._version = version
            self._algorithm.adopt(self._networks[0], self._networks[1], version)
        self._say(version)
        self._schedule.begun(version)
        self._number += 1
        self._asked, self._in_flight = False, True
        self._hand_in()

    def _hand_in(self) -> None:
        batch, length, said = self._batches.next(), 0, NOTHING_DRAWN
        assert batch is not None, "a batch was there"
        if len(batch.reward):
            self._turn += 1
            found = self._algorithm.gradient(batch, turn=self._turn)
            length = len(found)
            self._gradient["gradient"][0, :length] = found
            said = self._algorithm.hand_over()
        self._gradient.publish(self._number, Gradient(length, self._version))
        self._batches.finish(said.priority, said.extra)
        self._owner.ring()
