"""Nodes that get every ticket of a learner too, which is settled when all have answered. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from fast_core.messages import Followed, Train, Trained


class Followers:
    """Who has answered what; what the learner reports of a ticket waits here for all of them.

    Each gets the tickets in their order and answers in it. One that was started anew gets those
    that it has not answered once more.
    """

    def __init__(self, nodes: Sequence[str], settled: int):
        """All have answered the first ``settled`` tickets."""
        self._answered = dict.fromkeys(nodes, settled)
        self._orders: deque[Train] = deque()
        self._reports: deque[Trained] = deque()

    @property
    def waiting(self) -> int:
        """Tickets that the learner is done with and some of them is not."""
        return len(self._reports)

    def order(self, train: Train) -> Iterator[str]:
        """Take note of a ticket; returns who gets it."""
        if self._answered:
            self._orders.append(train)
        return iter(self._answered)

    def open(self, node: str) -> list[Train]:
        """What this one was told and has not answered."""
        first = self._answered.get(node)
        return [] if first is None else [each for each in self._orders if each.ticket >= first]

    def owing(self) -> Iterator[tuple[str, int]]:
        """Who has not answered, and the ticket that each owes next."""
        for node, ticket in self._answered.items():
            if self._orders and ticket <= self._orders[-1].ticket:
                yield node, ticket

    def expects(self, event: Followed) -> bool:
        """Whether this answers what its node was told next."""
        return (event.node, event.ticket) in self.owing()

    def answer(self, event: Followed) -> None:
        """A node is done with a ticket."""
        self._answered[event.node] += 1

    def report(self, event: Trained) -> None:
        """The learner is done with one."""
        self._reports.append(event)

    def take(self) -> Trained | None:
        """The oldest report of a ticket that all are done with."""
        if not self._reports:
            return None
        ticket = self._reports[0].ticket
        if any(answered <= ticket for answered in self._answered.values()):
            return None
        if self._orders:
            self._orders.popleft()
        return self._reports.popleft()
