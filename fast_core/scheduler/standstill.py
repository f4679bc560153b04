"""When nothing that is owed has come for too long, and who owes what.

A node that hangs is found by whoever watches its process. What is found here is work that is lost
though every process is well: a user's stage that forgets a rollout, a message that nobody answers.
The run stands still then. It is told at half the time it may, and ended after all of it.

That time counts from the last thing that came, and from when the last node ceased to work, which
the launcher sees: work that is being done is not lost, however long it takes. What has never come
before may take ``first_s``. Otherwise it is ``repeat_s``, or `PATIENCE` times the longest that
nothing came so far, for first times `FIRST_PATIENCE` times that, but never more than ``first_s``.
Whoever looks much too late was paused itself, and maybe all others with it: time begins anew then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fast_core import messages
from fast_core.messages import launching

PATIENCE, FIRST_PATIENCE = 20.0, 2.0
PAUSE_S = 2.0  # whoever looks so much too late was paused
NAMED = 5  # debts that a message names
_COMES = frozenset(
    {
        messages.Changed,
        launching.CheckpointWritten,
        messages.Evaluated,
        messages.Followed,
        messages.Left,
        messages.NodeExited,
        messages.Noted,
        messages.Ready,
        messages.RolloutReady,
        messages.Saved,
        messages.SnapshotTaken,
        launching.Told,
        messages.Trained,
        messages.Transformed,
    }
)


class Debt(NamedTuple):
    """Something that a node was told to do and has not said to have done.

    Attributes:
        node: Who owes it.
        kind: The event that it owes.
        what: What it is, as words that follow the node's name.
    """

    node: str
    kind: type[messages.Event]
    what: str


class Standstill:
    """Watches whether anything comes; an event costs O(1).

    Attributes:
        check_s: When to look next; None for never.
    """

    def __init__(self, first_s: float | None, repeat_s: float):
        self._first_s, self._repeat_s = first_s, repeat_s
        self._look_s = min(repeat_s, first_s or 0.0) / 2
        self.check_s: float | None = None
        self._since_s: float | None = None  # None before anything came
        self._scale_s = 0.0
        self._seen: set[type[object]] = set()
        self._told = False

    def take(self, event: messages.Event | launching.LauncherEvent, now_s: float) -> None:
        """Take note of what came."""
        kind = type(event)
        if self._first_s is None or kind not in _COMES:
            return
        if self._since_s is not None:
            patience = PATIENCE if kind in self._seen else FIRST_PATIENCE
            if patience * (now_s - self._since_s) > self._scale_s:
                self._scale_s = patience * (now_s - self._since_s)
        self._seen.add(kind)
        self._since_s, self._told, self.check_s = now_s, False, now_s + self._look_s

    def _restart(self, now_s: float) -> None:
        self._since_s, self._told = now_s, False
        self.check_s = now_s + self._look_s

    def look(
        self, debts: Iterator[Debt], idle_since_s: float | None, now_s: float
    ) -> Overdue | None:
        """What to say of ``debts`` at ``now_s``; None if there is nothing to say.

        Args:
            debts: What is owed; read only if nodes are idle.
            idle_since_s: Since when no node has been at work; None if one is, or that isn't known.
            now_s: The time, at least `check_s`.
        """
        owed = [] if idle_since_s is None else list(debts)
        paused = self.check_s is not None and now_s > self.check_s + PAUSE_S
        if idle_since_s is None or not owed or paused:
            self._restart(now_s)
            return None
        self._since_s = max(self._since_s or 0.0, min(idle_since_s, now_s))
        limit_s, key = self._limit(owed)
        stood_s = now_s - self._since_s
        if stood_s < limit_s and (self._told or stood_s < limit_s / 2):
            self.check_s = self._since_s + (limit_s if self._told else limit_s / 2)
            return None
        self._told, self.check_s = True, self._since_s + limit_s
        return Overdue(owed, stood_s, limit_s, key, over=stood_s >= limit_s)

    def _limit(self, owed: list[Debt]) -> tuple[float, str]:
        assert self._first_s is not None
        usual_s = max(self._repeat_s, self._scale_s)
        if usual_s >= self._first_s or not {debt.kind for debt in owed} <= self._seen:
            return self._first_s, "supervision.work_timeout_s"
        return usual_s, "supervision.repeat_timeout_s"


class Overdue(NamedTuple):
    """A run that stands still.

    Attributes:
        owed: All that is.
        stood_s: For how long.
        limit_s: How long it may.
        key: The setting that says so.
        over: Whether it has.
    """

    owed: list[Debt]
    stood_s: float
    limit_s: float
    key: str
    over: bool

    def text(self, ticket: int) -> str:
        """A sentence for people; ``ticket`` is the next to settle."""
        end = "" if self.over else f"; the run ends if that goes on for {self.limit_s:g} s"
        return (
            f"ticket {ticket} does not settle: nothing came for {self.stood_s:.0f} s although no "
            f"node is at work ({self.key}). {owed_text(self.owed)}{end}"
        )


def owed_text(owed: list[Debt]) -> str:
    """Who owes what."""
    named = "; ".join(f"{debt.node} {debt.what}" for debt in owed[:NAMED])
    return f"{named}; and {len(owed) - NAMED} more" if len(owed) > NAMED else named
