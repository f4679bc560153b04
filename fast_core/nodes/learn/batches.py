"""What steppers are, and what they take: the batches of one optimizer, in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


class Stepper(ABC):
    """Takes an optimizer's steps.

    A call that did anything returns a report or changes `pending`.
    """

    @property
    @abstractmethod
    def pending(self) -> bool:
        """Whether something was begun or asked for here and its step is not over."""

    @property
    def asks(self) -> bool:
        """Whether something is pending whose end nobody rings for: `advance` has to ask."""
        return False

    @abstractmethod
    def advance(self) -> UpdateReport | None:
        """Take what is there one step further, without waiting for more.

        Returns:
            What came of a step that was taken or skipped, exactly one of both, in plain numbers
            (`fast_core.nodes.learn.contract.checked_report`). With
            ``nodes.optimizer.update: async`` the first optimizer returns one for every gradient
            that it applies, its own or another's, and the others return none.
        """

    def state(self) -> dict[str, object]:
        """What has to be saved beside the learner, when nothing is pending."""
        return {}

    def load(self, state: dict[str, object]) -> None:  # noqa: B027 - optional for subclasses
        """Continue from `state`; before the first `advance`."""

    def close(self) -> None:  # noqa: B027 - optional for subclasses
        """Let go of what is shared with other optimizers; can be called twice."""
