"""Rollouts on their way through the user's nodes, before they are trained on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fast_core.messages import Transform, Transformed
from fast_core.scheduler.ledger import Rollout


class Left(NamedTuple):
    """A rollout that a stage is done with.

    Attributes:
        rollout: The rollout.
        node: The next stage, empty after the last.
        command: What that is told, None after the last.
    """

    rollout: Rollout
    node: str
    command: Transform | None


class Stages:
    """Which rollout is at which stage; every operation is O(1), amortised.

    At degree 0 the first stage gets the rollouts of a ticket in the order of shards, whatever the
    order in which they were completed: a stage may remember what it has seen, and then results
    depend on the order. Above degree 0 it gets them as they come.
    """

    def __init__(self, nodes: tuple[str, ...], shards: Sequence[int], *, in_shard_order: bool):
        self._nodes, self._in_shard_order = nodes, in_shard_order
        self._turns = itertools.cycle(shards)
        self._inside: dict[tuple[int, int, int], tuple[Rollout, int]] = {}
        self._held: dict[int, Rollout] = {}  # by shard; complete before one of a lower shard
        self._next = next(self._turns)

    @property
    def inside(self) -> int:
        """Rollouts that are complete and have not left the last stage."""
        return len(self._inside) + len(self._held)

    def open(self) -> Iterator[tuple[str, Rollout]]:
        """The stage that has each rollout, those left out that wait for one of a lower shard."""
        for rollout, stage in self._inside.values():
            yield self._nodes[stage], rollout

    def enter(self, rollout: Rollout) -> list[tuple[str, Transform]]:
        """Take a complete rollout; returns what the first stage may be told now."""
        if not self._in_shard_order:
            return [(self._nodes[0], self._go(rollout, 0))]
        self._held[rollout.order.shard] = rollout
        sends = []
        while (held := self._held.pop(self._next, None)) is not None:
            sends.append((self._nodes[0], self._go(held, 0)))
            self._next = next(self._turns)
        return sends

    def leave(self, event: Transformed) -> Left | None:
        """Take a stage's report; None if it does not have this rollout."""
        ref = event.rollout
        key = (ref.shard, ref.incarnation, ref.rollout_id)
        rollout, stage = self._inside.get(key, (None, 0))
        if rollout is None or event.node != self._nodes[stage] or ref.slot != rollout.order.slot:
            return None
        del self._inside[key]
        if stage + 1 == len(self._nodes):
            return Left(rollout, "", None)
        return Left(rollout, self._nodes[stage + 1], self._go(rollout, stage + 1))

    def _go(self, rollout: Rollout, stage: int) -> Transform:
        order = rollout.order
        self._inside[order.shard, order.incarnation, order.rollout_id] = (rollout, stage)
        return Transform(order.ticket, rollout.ref)
