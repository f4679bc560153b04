"""Several optimizers that take every step together: each has a share of the batch, all the mean.

Replicas begin equal and apply the same vector, bit for bit, so they stay equal; that is checked
by a hash of everything that they must have alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import SharedAlgorithm, UpdateReport
from fast_core.errors import ReplicasDiffer
from fast_core.memory import Mailbox
from fast_core.nodes.learn.batches import NOTHING_DRAWN, Batches, Stepper
from fast_core.nodes.learn.contract import checked_report
from fast_core.nodes.learn.digest import digest
from fast_core.run.mail import Gradient
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import gradient_boxes

F32 = NDArray[np.float32]
CHECK_EVERY = 100  # steps between two comparisons of the replicas


@dataclass(frozen=True)
class Averaged:
    """What came of one step's vectors.

    Attributes:
        gradient: Their mean, equal in every replica; None if one had no batch.
        digests: What each replica said of itself, by rank; empty if it said nothing.
    """

    gradient: F32 | None
    digests: tuple[bytes, ...]


class Exchange(Protocol):
    """How the vectors of replicas become one."""

    def offer(self, step: int, gradient: F32 | None, digest: bytes) -> None:
        """Give the own vector of ``step``, from 1; None if there was no batch.

        ``digest`` has 32 bytes, or none in all replicas alike.
        """
        ...

    def collect(self) -> Averaged | None:
        """The mean of the step that was offered; None as long as others have not offered."""
        ...

    def close(self) -> None:
        """Let go; can be called twice."""
        ...


class Averaging(Stepper):
    """One replica.

    Args:
        algorithm: The learner, equal in all replicas but for its random streams.
        batches: Its shares of the batches.
        exchange: How vectors are averaged.
        check_every: Steps between two comparisons of the replicas; the first step has one.
    """

    def __init__(
        self,
        algorithm: SharedAlgorithm,
        batches: Batches,
        exchange: Exchange,
        *,
        check_every: int = CHECK_EVERY,
    ) -> None:
        self._algorithm, self._batches, self._exchange = algorithm, batches, exchange
        self._check_every = check_every
        self._steps = 0  # taken or skipped
        self._offered = False

    @property
    def pending(self) -> bool:
        """Whether the own share was differentiated and the step not taken yet."""
        return self._offered

    def advance(self) -> UpdateReport | None:
        """Offer the own vector if there is a batch; take the step when all have offered."""
        if not self._offered and not self._offer():
            return None
        averaged = self._exchange.collect()
        if averaged is None:
            return None
        self._compare(averaged.digests)
        report = NOTHING_DRAWN
        if averaged.gradient is not None:
            report = checked_report(self._algorithm.apply(averaged.gradient), steps=1)
        self._offered = False
        self._steps += 1
        self._batches.finish(report.priority, report.extra)
        return report

    def close(self) -> None:
        """Let go of the exchange."""
        self._exchange.close()

    def _offer(self) -> bool:
        batch = self._batches.next()
        if batch is None:
            return False
        compare = self._steps % self._check_every == 0
        own = bytes.fromhex(digest(self._algorithm.shared_state())) if compare else b""
        gradient = self._algorithm.gradient(batch) if len(batch.reward) else None
        self._exchange.offer(self._steps + 1, gradient, own)
        self._offered = True
        return True

    def _compare(self, digests: Sequence[bytes]) -> None:
        first = digests[0]
        for rank, other in enumerate(digests):
            if other != first:
                raise ReplicasDiffer(
                    "optimizers that average their gradients must stay equal; before step "
                    f"{self._steps + 1} of this part of the run, after {self._algorithm.updates} "
                    f"committed in all, optimizer-0 has the hash {first.hex()} and "
                    f"optimizer-{rank} {other.hex()}. If the algorithm is your own, its apply() "
                    "must depend on the gradient alone; otherwise this is a fault in FastLoop or "
                    "in the machine's memory. Resume from the last checkpoint."
                )


class SharedExchange:
    """Averages through shared memory; every replica sums by itself, in the order of ranks.

    Concurrency:
        Each replica writes its own two boxes in turn, step ``u`` in box ``u % 2``; the number,
        stored last with release, is the step's. It writes step ``u + 1`` only after it has seen
        the vectors of step ``u`` of all, each of whom had read step ``u - 1`` whole before it
        published ``u``: nobody reads the box that is written. A replica killed anywhere leaves
        the old number, and the others wait until the run is ended for it.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory, rank: int) -> None:
        """Attach as replica ``rank``."""
        ranks, turns = range(plan.optimizers), range(gradient_boxes(plan))
        assert len(turns) == 2, "averaging replicas publish in two boxes in turn"
        self._boxes = [[memory.gradient(r, turn) for r in ranks] for turn in turns]
        self._others = [memory.doorbell(plan.names.optimizers[r]) for r in ranks if r != rank]
        self._rank, self._step = rank, 0
        self._own: F32 | None = None

    def offer(self, step: int, gradient: F32 | None, digest: bytes) -> None:
        """Publish the own vector."""
        box = self._boxes[step % 2][self._rank]
        length = 0 if gradient is None else len(gradient)
        if gradient is not None:
            box["gradient"][0, :length] = gradient
        if digest:
            box["digest"][0] = np.frombuffer(digest, np.uint8)
        box.publish(step, Gradient(length, has_digest=bool(digest)))
        if gradient is not None and not gradient.flags.writeable:
            gradient = gradient.copy()
        self._step, self._own = step, gradient
        for doorbell in self._others:
            doorbell.ring()

    def collect(self) -> Averaged | None:
        """The mean, if every number is the step's."""
        boxes = self._boxes[self._step % 2]
        if any(box.number() != self._step for box in boxes):
            return None
        words = [box.words for box in boxes]
        digests = tuple(
            box["digest"][0].tobytes() if said.has_digest else b""
            for box, said in zip(boxes, words, strict=True)
        )
        return Averaged(self._mean(boxes, [said.length for said in words]), digests)

    def _mean(self, boxes: Sequence[Mailbox[Gradient]], lengths: list[int]) -> F32 | None:
        mean = self._own
        if min(lengths) == 0 or mean is None:
            return None
        if min(lengths) != max(lengths):
            raise ReplicasDiffer(
                f"optimizers that average must give gradients of one length at step {self._step}; "
                f"got {lengths}, by rank. They have not taken the same steps."
            )
        first, *others = [box["gradient"][0, : len(mean)] for box in boxes]
        with np.errstate(all="ignore"):  # what is not finite is a step that `apply` skips
            # In place of the own vector, which its box has: the learner's own memory, mostly, so
            # that nothing is left to be copied.
            np.add(first, others[0], out=mean)
            for other in others[1:]:
                np.add(mean, other, out=mean)
            np.divide(mean, np.float32(len(boxes)), out=mean)
        return mean

    def close(self) -> None:
        """Nothing is held but the memory."""
