"""What the steps of one ticket come to, from replay."""

from __future__ import annotations

from fast_core.algorithm import UpdateReport
from fast_core.messages import Train

NS_PER_MS = 1e6


class TicketFigures:
    """Adds up reports until every step that a ticket grants is taken or skipped.

    Attributes:
        train: The order.
        updates: Steps taken.
        skipped: Steps skipped.
        computing_ns: Time spent on them.
        waiting_ns: Time without anything to do while steps were left.
    """

    def __init__(self, train: Train) -> None:
        """Nothing is done yet."""
        self.train = train
        self.updates = self.skipped = 0
        self.computing_ns = self.waiting_ns = 0
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    @property
    def complete(self) -> bool:
        """Whether no step is left."""
        return self.left <= 0

    @property
    def left(self) -> int:
        """Steps that are neither taken nor skipped."""
        return self.train.granted - self.updates - self.skipped

    def add(self, report: UpdateReport) -> None:
        """Count one step, as a `fast_core.nodes.learn.batches.Stepper` reports it: checked."""
        self.updates += report.updates
        self.skipped += report.skipped
        sums, counts = self._sums, self._counts
        for name, value in report.metrics.items():
            sums[name] = sums.get(name, 0.0) + value
            counts[name] = counts.get(name, 0) + 1

    def report(self) -> UpdateReport:
        """Of all steps; metrics are means over those that report them."""
        if not self.train.granted:
            return UpdateReport(self.updates, self.skipped)
        steps = max(1, self.updates + self.skipped)
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        times = {
            "update_ms": self.computing_ns / steps / NS_PER_MS,
            "batch_wait_ms": self.waiting_ns / steps / NS_PER_MS,
        }
        return UpdateReport(self.updates, self.skipped, {**means, **times})
