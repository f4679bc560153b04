"""What the steps of one ticket come to, from replay."""

from __future__ import annotations

from fast_core.algorithm import UpdateReport
from fast_core.messages import Train, Trained

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

    def trained(
        self,
        node: str,
        *,
        before: int,
        version: int,
        publish_s: float,
        digest: str,
        checksum: int,
    ) -> Trained:
        """The answer: metrics are means over the steps that report them.

        The lag is that of collection: how many steps the weights that acted in the ticket's
        rollouts are behind; what is drawn is as old as the replay.

        Args:
            node: Who answers.
            before: Committed steps before the ticket.
            version: Committed steps after it.
            publish_s: See `Trained`.
            digest: Of the learner.
            checksum: Of its weights.
        """
        steps, train = max(1, self.updates + self.skipped), self.train
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        last = max(0, self.updates - 1)
        return Trained(
            node=node,
            ticket=train.ticket,
            version=version,
            updates=self.updates,
            skipped=self.skipped,
            lag_mean=before - train.mean_version + last / 2,
            lag_max=before - train.oldest_version + last,
            metrics={
                **means,
                "update_ms": self.computing_ns / steps / NS_PER_MS,
                "batch_wait_ms": self.waiting_ns / steps / NS_PER_MS,
            }
            if train.granted
            else {},
            digest=digest,
            publish_s=publish_s,
            checksum=checksum,
        )
