"""What happens when a node fails: the run ends with the first cause, or the node comes back.

It comes back after a death, as often as the budget of its kind allows. Of an error, which would
most likely be raised again, the launcher makes a death only where ``on_error`` says so.
A death after which nobody knows whether the process is gone ends the run: two nodes that write the
same words would be worse.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from fast_core.messages import Failed, NodeExited


class Budget(msgspec.Struct, frozen=True):
    """Deaths that the run survives.

    Attributes:
        kind: Of node, as ``supervision.restarts`` names it.
        nodes: All of that kind.
        deaths: How many of them all together.
        key: Where that stands.
    """

    kind: str
    nodes: tuple[str, ...]
    deaths: int
    key: str = ""


class Failure(NamedTuple):
    """A failure of a node.

    Attributes:
        text: What happened, a sentence for people.
        cause: The node's own report, or what is known where it died without one.
    """

    text: str
    cause: Failed


def describe(event: Failed | NodeExited) -> Failure:
    """The failure behind an event."""
    if isinstance(event, Failed):
        return Failure(f"{event.node} failed while {event.doing}: {event.error}", event)
    if event.report is not None:
        return describe(event.report)
    cause = event.cause or "it exited although nobody had told it to stop"
    report = Failed(event.node, "unknown", f"{event.node} is lost: {cause}", "", {})
    return Failure(report.error, report)


class Restarts:
    """Who is gone and comes back, when, and how often that may be.

    A node is started anew at once the first time, then after ``backoff_s``, and after twice as long
    each time, at most ``max_backoff_s``. Once it has lived for that long it counts as well again.

    Attributes:
        away: Nodes that died and are not ready again.
        deaths: Deaths so far that the run survived, by kind.
        left: Further ones that it survives, by kind.
        returned: How many nodes came back, by kind.
    """

    def __init__(self, budgets: tuple[Budget, ...], backoff_s: float, max_backoff_s: float):
        self._keys = {budget.kind: budget.key for budget in budgets}
        self._kinds = {node: budget.kind for budget in budgets for node in budget.nodes}
        self._backoff_s, self._max_backoff_s = backoff_s, max_backoff_s
        self.left = {budget.kind: budget.deaths for budget in budgets}
        self.deaths = dict.fromkeys(self.left, 0)
        self.returned = dict.fromkeys(self.left, 0)
        self.away: set[str] = set()
        self._due_s: dict[str, float] = {}  # of those that are to be started anew
        self._lives: dict[str, int] = {}
        self._waits_s: dict[str, float] = {}  # before the next start, where it is not at once
        self._since_s: dict[str, float] = {}

    def survives(self, event: NodeExited) -> bool:
        """Whether the run goes on and the node comes back."""
        return event.reaped and self.left_of(event.node) > 0

    def left_of(self, node: str) -> int:
        """How many more deaths of nodes of its kind the run survives."""
        return self.left.get(self._kinds.get(node, ""), 0)

    def knows(self, event: NodeExited) -> bool:
        """Whether this is news of a death that is known."""
        node = event.node
        return node in self.away and (node in self._due_s or not event.reaped)

    def bury(self, node: str, now_s: float) -> float:
        """Take note of a death that is survived; returns the wait before it is started anew."""
        kind, since_s = self._kinds[node], self._since_s.get(node)
        self.left[kind] -= 1
        self.deaths[kind] += 1
        self.away.add(node)
        if node not in self._waits_s or (
            since_s is not None and now_s - since_s >= self._max_backoff_s
        ):
            self._waits_s[node] = 0.0
        wait_s = self._waits_s[node]
        self._waits_s[node] = min(max(2 * wait_s, self._backoff_s), self._max_backoff_s)
        self._since_s.pop(node, None)
        self._due_s[node] = now_s + wait_s
        return wait_s

    @property
    def next_s(self) -> float | None:
        """When the next one is to be started anew; None while there is none."""
        return min(self._due_s.values()) if self._due_s else None

    def take_due(self, now_s: float) -> list[tuple[str, int]]:
        """Those to be started anew now, each with the number of its life."""
        if not self._due_s:
            return []
        due = [node for node, at_s in self._due_s.items() if now_s >= at_s]
        for node in due:
            del self._due_s[node]
        return [(node, self.renew(node)) for node in due]

    def hurry(self, now_s: float) -> None:
        """Start whoever waits for it at once: the run is about to end and needs them all."""
        self._due_s = dict.fromkeys(self._due_s, now_s)

    def renew(self, node: str) -> int:
        """The number of the next life of a node, which begins now."""
        self._lives[node] = self._lives.get(node, 1) + 1
        return self._lives[node]

    def awaits(self, node: str) -> bool:
        """Whether this node was started anew and is not ready yet."""
        return node in self.away and node not in self._due_s

    def back(self, node: str, now_s: float) -> None:
        """It is ready again."""
        self.away.discard(node)
        self._since_s[node] = now_s
        self.returned[self._kinds[node]] += 1

    def describe(self, event: NodeExited, wait_s: float) -> str:
        """A death that is survived, for people."""
        kind = self._kinds[event.node]
        when = f"in {wait_s:g} s" if wait_s else "now"
        return (
            f"{event.node} is gone: {event.cause}; it is started anew {when}; {self.left[kind]} "
            f"more such deaths would be survived ({self._keys[kind]})"
        )
