"""Nodes that a run goes on without: whoever is gone is started anew, until it is given up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fast_core.messages import Failed, NodeExited
from fast_core.scheduler.failures import Budget, Restarts, describe

# Deaths in a row after each of which such a node is started anew; the next one is the last.
DEATHS = 5


class OptionalNodes:
    """Those nodes, with a budget of deaths for each, all of it again once it has lived for long.

    Attributes:
        names: All of them.
        given_up: Those that are not started any more.
    """

    def __init__(self, names: Sequence[str], backoff_s: float, max_backoff_s: float):
        self.names = frozenset(names)
        self.given_up: set[str] = set()
        budgets = tuple(Budget(name, (name,), DEATHS) for name in names)
        self._restarts = Restarts(budgets, backoff_s, max_backoff_s)
        self._long_s = max_backoff_s
        self._since_s: dict[str, float] = {}  # when each became ready
        self._faulty: set[str] = set()

    @property
    def next_s(self) -> float | None:
        """When the next one is to be started anew; None while there is none."""
        return self._restarts.next_s

    @property
    def returned(self) -> int:
        """How often one of them came back."""
        return sum(self._restarts.returned.values())

    def take_due(self, now_s: float) -> list[tuple[str, int]]:
        """Those to be started anew now, each with the number of its life."""
        return self._restarts.take_due(now_s)

    def awaits(self, node: str) -> bool:
        """Whether it has not been ready in this life; its first one included."""
        return node in self.names and node not in self._since_s

    def ready(self, node: str, now_s: float) -> bool:
        """It is ready; returns whether it had been gone before."""
        self._since_s[node] = now_s
        if not self._restarts.awaits(node):
            return False
        self._restarts.back(node, now_s)
        return True

    def is_news(self, event: NodeExited) -> bool:
        """Whether this death was not known; one is taken note of once its process is gone."""
        gone = event.node in self.given_up
        return event.reaped and not gone and not self._restarts.knows(event)

    def bury(self, event: NodeExited, now_s: float) -> str:
        """Take note of a death; returns what follows, for people."""
        node, since_s = event.node, self._since_s.pop(event.node, None)
        if since_s is not None and now_s - since_s >= self._long_s:
            self._restarts.left[node] = DEATHS
        story = f"{node} is gone: {event.cause}; the run goes on without it"
        if not self._restarts.left[node]:
            self.given_up.add(node)
            return f"{story} and starts it no more: it has died {DEATHS + 1} times in a row"
        wait_s = self._restarts.bury(node, now_s)
        return f"{story} and starts it anew {f'in {wait_s:g} s' if wait_s else 'now'}"

    def is_first_fault(self, node: str) -> bool:
        """Whether it has broken no rule before; one that does again and again is told of once."""
        first = node not in self._faulty
        self._faulty.add(node)
        return first

    def give_up(self, event: Failed | NodeExited) -> str:
        """Start it no more; returns what happened, for people."""
        self.given_up.add(event.node)
        self._since_s.pop(event.node, None)
        return f"{describe(event).text}; the run goes on without it"
