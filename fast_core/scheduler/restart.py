"""What happens when a node fails.

Every failure ends the run with its first cause, except the deaths of env nodes that
`fast_core.scheduler.deaths` lets it survive.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fast_core.events import Failed, NodeExited

Verdict = Literal["end_run"]


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one node.

    Attributes:
        node: The node.
        text: What happened, a sentence for people.
        cause: The node's own report, or what is known where it died without one.
    """

    node: str
    text: str
    cause: Failed


class Failures:
    """The first failure of the run and the number of those that followed from it."""

    def __init__(self) -> None:
        self.first: Failure | None = None
        self.secondary = 0

    def verdict(self, failure: Failure) -> Verdict:
        """Record a failure and say what to do."""
        if self.first is None:
            self.first = failure
        else:
            self.secondary += 1
        return "end_run"


def describe(event: Failed | NodeExited) -> Failure:
    """The failure behind an event."""
    if isinstance(event, Failed):
        text = f"{event.node} failed while {event.doing}: {event.error}"
        return Failure(event.node, text, event)
    if event.report is not None:
        return describe(event.report)
    cause = event.cause or "it exited although nobody had told it to stop"
    report = Failed(event.node, "unknown", f"{event.node} is lost: {cause}", "", {})
    return Failure(event.node, report.error, report)
