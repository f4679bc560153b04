"""Whose gradient was applied when, and with which parameters each was computed.

That is all that timing decides where gradients are applied as they come. Recorded, or followed
when a run is done again: the owner takes the recorded steps in their order, each worker begins a
batch while the parameters are those that it took then, and a step that would publish the next
ones waits until all have taken these.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from fast_core.run.plan import RunPlan
from fast_core.run.schedule import (
    BEGUN,
    GradientBase,
    GradientStep,
    followed,
    read_share,
    recording,
)


def _bases(share: Path) -> list[int]:
    return [base.steps for base in read_share(share, GradientBase)]


class _Record:
    """Where an optimizer writes down what it does, if that is recorded."""

    def __init__(self, plan: RunPlan, rank: int) -> None:
        name = plan.names.optimizers[rank]
        self._writer = recording(plan, name, logging.getLogger(f"fastloop.{name}").warning)

    def _write(self, done: GradientStep | GradientBase) -> None:
        if self._writer is not None:
            self._writer.write(done, time.monotonic())

    def close(self) -> None:
        """Write the rest. May be called twice."""
        if self._writer is not None:
            self._writer.close()


class OwnerSchedule(_Record):
    """The owner's: what it does, in order."""

    def __init__(self, plan: RunPlan) -> None:
        """Record, follow, or do nothing, as the plan says."""
        super().__init__(plan, 0)
        self._left: deque[GradientStep] | None = None
        self._bases: list[Sequence[int]] = []
        shares = [followed(plan, name) for name in plan.names.optimizers]
        if shares[0] is not None:
            self._left = deque(read_share(shares[0], GradientStep))
            self._bases = [_bases(share) for share in shares[1:] if share is not None]

    @property
    def follows(self) -> bool:
        """Whether the owner is to do what `next` says."""
        return self._left is not None

    def next(self, committed: int, begun: Sequence[int]) -> int | None:
        """What is to be done next: the rank whose gradient is applied, or `BEGUN`.

        Args:
            committed: Steps behind the parameters.
            begun: Batches that each worker has begun.

        Returns:
            None while a worker has yet to take these parameters, or where the record ends.
        """
        if not self._left:
            return None
        step = self._left[0]
        if step.updates and not all(
            number >= len(bases) or bases[number] > committed
            for bases, number in zip(self._bases, begun, strict=True)
        ):
            return None
        return step.rank

    def done(self, rank: int, updates: int = 0) -> None:
        """A gradient of this rank was applied, or with `BEGUN` an own one computed."""
        if self._left is not None:
            self._left.popleft()
        self._write(GradientStep(rank, updates))


class WorkerSchedule(_Record):
    """A worker's: which parameters it takes for each of its batches."""

    def __init__(self, plan: RunPlan, rank: int) -> None:
        """Record, follow, or do nothing, as the plan says."""
        super().__init__(plan, rank)
        self._left: deque[int] | None = None
        if (share := followed(plan, plan.names.optimizers[rank])) is not None:
            self._left = deque(_bases(share))

    def may_begin(self, published: int) -> bool:
        """Whether the next batch may be begun with the parameters ``published``."""
        return self._left is None or (bool(self._left) and self._left[0] == published)

    def begun(self, base: int) -> None:
        """A batch was begun with these parameters."""
        if self._left is not None:
            self._left.popleft()
        self._write(GradientBase(base))


__all__ = ["BEGUN", "OwnerSchedule", "WorkerSchedule"]
