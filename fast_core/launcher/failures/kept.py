"""What went wrong in a run, each failure once."""

from __future__ import annotations

from collections.abc import Callable

from fast_core.messages import Failed, NodeExited
from fast_core.messages.launching import EndRun
from fast_core.scheduler import CALLBACKS


class Failures:
    """Failures of nodes and callbacks.

    Attributes:
        kept: They, in order of arrival.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        """``report`` is called with a sentence."""
        self.kept: list[Failed | NodeExited] = []
        self._report = report

    def has(self, node: str) -> bool:
        """Whether this node's failure is known already."""
        return any(failure.node == node for failure in self.kept)

    def take(self, event: Failed | NodeExited, end: EndRun | None) -> EndRun | None:
        """Keep it; a node that reported its failure and then exits is one failure, not two.

        ``end`` is how the run ends, once that is decided; returned is how it does now.
        """
        if isinstance(event, NodeExited) and (not event.cause or self.has(event.node)):
            return end
        report = event.report if isinstance(event, NodeExited) else None
        self.kept.append(report or event)
        if end is None:
            return None
        if event.node == CALLBACKS and isinstance(event, Failed):
            return self._callbacks_late(end, event)
        text = event.error if isinstance(event, Failed) else event.cause
        self._report(f"{event.node} failed while the run ended: {text}")
        return end

    def _callbacks_late(self, end: EndRun, failed: Failed) -> EndRun:
        """A run that had finished has failed, whoever hears of it; no other end is covered up."""
        text = f"{failed.node} failed while {failed.doing}: {failed.error}"
        if end.reason == "finished":
            return EndRun("failed", text, failed)
        self._report(f"{failed.traceback}{text}")
        return end
