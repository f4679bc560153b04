"""Tickets: which rollouts train together, and how far the settled prefix reaches.

Above degree 0 a ticket is made of the rollouts that complete first, but not without limit: one
that started while ``s`` tickets were settled acts with weights no older than the end of ticket
``s - 1``, so the lag guarantee lets it train in ticket ``s + degree`` at the latest. A ticket that
would leave such a rollout behind waits for it. At most one ticket's worth of rollouts can be due
in one ticket, because admission never lets more than ``shards * (s + degree + 1)`` start.

Instead of waiting it may be given up: then it is late, its place goes to another, and it is
released when it is complete.

The degree may change. Where it has fallen, a rollout may have to train earlier than some that were
started before it. Then these have to, too: they train by ``s + degree`` of the new one, which has
room for all of them, since it was admitted with them counted.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import NamedTuple

from fast_core.scheduler.ledger import Rollout, RolloutState

_GONE = (RolloutState.TRAINING, RolloutState.FREED, RolloutState.DROPPED, RolloutState.LATE)


class Merged(NamedTuple):
    """A ticket that trains.

    Attributes:
        rollouts: Its rollouts, in training order.
        rows: Environment steps in them.
        granted: Optimizer steps that it grants.
    """

    rollouts: list[Rollout]
    rows: int
    granted: int


class Tickets:
    """Open rollouts, merged tickets and the settled prefix; amortised O(log shards) a rollout."""

    def __init__(self, shards: int, settled: int, *, drops: bool = False):
        """Start with ``settled`` tickets settled and nothing open.

        Args:
            shards: Rollouts of one ticket.
            settled: Tickets that are settled.
            drops: Whether rollouts that a ticket would have to wait for are given up.
        """
        self.settled = settled
        self.merged = settled
        self.started = shards * settled
        self.shards = shards
        self._open: deque[Rollout] = deque()  # start order; merged ones leave lazily at the front
        self._ready: deque[Rollout] = deque()  # completion order; likewise
        self._due: list[Rollout] = []
        self._completed = 0
        self.ready = self.late = 0
        self._drops = drops
        self._training: deque[Merged] = deque()

    @property
    def training(self) -> int:
        """Merged tickets that are not settled."""
        return len(self._training)

    @property
    def next_to_settle(self) -> Merged | None:
        """The oldest ticket that trains, None if none does."""
        return self._training[0] if self._training else None

    @property
    def quiescent(self) -> bool:
        """Whether every rollout that was started is settled, or released because it was late."""
        return self.started == self.settled * self.shards and not self.late

    def begin(self, rollout: Rollout) -> None:
        """Count a started rollout."""
        self.started += 1
        for earlier in reversed(self._open):
            if earlier.last_ticket <= rollout.last_ticket:
                break
            earlier.last_ticket = rollout.last_ticket
        self._open.append(rollout)

    def complete(self, rollout: Rollout) -> None:
        """Count a rollout that is ready to be merged."""
        self.ready += 1
        self._completed += 1
        rollout.place, rollout.completion = RolloutState.READY, self._completed
        self._ready.append(rollout)

    def drop(self, rollout: Rollout) -> bool:
        """Count a started rollout no more: its env node died, and it is ordered anew.

        Returns:
            Whether it was counted; late ones aren't.
        """
        counted = rollout.place is not RolloutState.LATE
        if counted:
            self.started -= 1
        else:
            self.late -= 1
        rollout.place = RolloutState.DROPPED
        return counted

    def merge(self, *, in_shard_order: bool) -> list[Rollout] | None:
        """Form the next ticket, which is then to `train`, if it can be formed now.

        Returns:
            Its rollouts in training order, by shard or by completion, or None.
        """
        if self.ready < self.shards or not self._due_are_ready():
            return None
        chosen, self._due = self._due, []
        while len(chosen) < self.shards:
            rollout = self._ready.popleft()
            if rollout.place is RolloutState.READY:
                chosen.append(rollout)
        chosen.sort(key=attrgetter("order.shard" if in_shard_order else "completion"))
        self._mark(chosen)
        return chosen

    def train(self, merged: Merged) -> None:
        """Count the ticket that was formed as one that trains."""
        self._training.append(merged)

    def settle(self) -> Merged:
        """Settle the next ticket, whose slots may be freed."""
        self.settled += 1
        return self._training.popleft()

    def _due_are_ready(self) -> bool:
        """Move what must join the next ticket to ``_due``; False while one of it still runs."""
        while self._open and self._open[0].last_ticket <= self.merged:
            oldest = self._open[0]
            waits = oldest.place is RolloutState.RUNNING and not self._drops
            if waits or oldest.place is RolloutState.STAGED:
                return False
            self._open.popleft()
            if oldest.place is RolloutState.RUNNING:
                oldest.place = RolloutState.LATE
                self.late += 1
                self.started -= 1
            elif oldest.place is RolloutState.READY:
                oldest.place = RolloutState.DUE
                self._due.append(oldest)
        return True

    def _mark(self, chosen: list[Rollout]) -> None:
        for rollout in chosen:
            rollout.place = RolloutState.TRAINING
        self.ready -= len(chosen)
        self.merged += 1
        for queue in (self._ready, self._open):
            while queue and queue[0].place in _GONE:
                queue.popleft()
