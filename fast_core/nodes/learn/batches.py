"""What steppers take: the batches of one optimizer, in order, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fast_core.algorithm import Array, ReplayBatch, UpdateReport

NOTHING_DRAWN = UpdateReport(updates=0, skipped=1)


class Batches(Protocol):
    """An optimizer's end of its batch slots."""

    def next(self, ahead: int = 0) -> ReplayBatch | None:
        """The oldest batch that is not finished, or one so far behind it; None while there is none.

        Its arrays stay as they are until `finish`. A batch that could not be drawn has no rows;
        it ends as a step that was skipped, in all optimizers that average alike.
        """
        ...

    def finish(self, priority: Array | None, extra: Mapping[str, Array] = ...) -> None:
        """Give the batch back, with the absolute errors ``[N]`` of its rows if there are any.

        ``extra`` is what the learner says of them (`UpdateReport.extra`).
        """
        ...
