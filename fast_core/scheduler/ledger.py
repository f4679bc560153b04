"""Who executes which shard, and where every rollout is.

A rollout is in exactly one place: running in an env node, on its way through the user's nodes,
ready in its slot, or training. Its slot is taken when it starts and freed by `release`, or by
`park` where its env node died. One that came too late to train on runs on, since its shard can do
nothing else meanwhile, and is released when it is complete.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from fast_core.messages import Assign, RolloutOrder, RolloutReady, RolloutRef


class RolloutState(Enum):
    """Where a rollout is."""

    RUNNING = "running"
    LATE = "late"  # running, and no ticket may train on it any more
    STAGED = "staged"  # complete, and on its way through the user's nodes
    READY = "ready"
    DUE = "due"  # ready, and the next ticket must train on it
    TRAINING = "training"
    FREED = "freed"
    DROPPED = "dropped"  # its env node died while it ran


@dataclass(slots=True, eq=False)
class Rollout:
    """One shard rollout from its order until its slot is free again.

    Attributes:
        order: What the env node was told.
        last_ticket: Latest ticket that may train on it without breaking the lag guarantee.
        place: Where it is now.
        result: What the env node reported, None while it runs.
        rows: Environment steps in it, once it is complete.
        grants: Optimizer steps that it grants; None where a ratio says it.
        completion: Serial number among rollouts that became ready.
        began_s: When it was ordered.
    """

    order: RolloutOrder
    last_ticket: int
    place: RolloutState = RolloutState.RUNNING
    result: RolloutReady | None = None
    rows: int = 0
    grants: int | None = None
    completion: int = 0
    began_s: float = 0.0

    @property
    def ref(self) -> RolloutRef:
        """Its name in shared memory."""
        order = self.order
        return RolloutRef(order.shard, order.incarnation, order.slot, order.rollout_id)

    @property
    def acted_with(self) -> int:
        """Oldest version that acted in it, once it is complete."""
        assert self.result is not None
        return self.result.version


class ShardCounts(msgspec.Struct):
    """What a ledger keeps.

    Attributes:
        incarnations: Last incarnation of each shard, 0 for one never assigned.
        rollout_ids: Last rollout id of each shard, 0 for none.
    """

    incarnations: list[int] = []
    rollout_ids: list[int] = []


class Ledger:
    """Shards, their nodes and slots; every operation is O(log shards).

    A shard runs one rollout at a time. It is *idle* when some node has it, it runs none and has a
    free slot; idle shards of a flow wait in a heap, least started first and ties by index. The key
    of a waiting shard can't change, because only starting a rollout changes it and that takes the
    shard out. One that was taken from its node leaves an entry of an earlier incarnation, which is
    skipped when it comes up.

    Attributes:
        owners: The node that executes each shard; empty while none does.
        held: The shards that each node was given, also while it is gone.
        flow_of: The flow that each shard is collected for, by number.
    """

    def __init__(
        self,
        slots_per_shard: int,
        incarnations: list[int],
        rollout_ids: list[int],
        flow_of: Sequence[int] = (),
    ):
        """Start with every slot free and no shard assigned.

        Args:
            slots_per_shard: Rollout slots of each shard.
            incarnations: Last incarnation of each shard, 0 for one never assigned.
            rollout_ids: Last rollout id of each shard, 0 for none.
            flow_of: The flow of each shard, where there are several.
        """
        shards = len(incarnations)
        self.incarnations = incarnations
        self.rollout_ids = rollout_ids
        self.owners: list[str] = [""] * shards
        self.held: dict[str, list[int]] = {}
        self.running = 0
        self._free = [(1 << slots_per_shard) - 1] * shards
        self._running: list[Rollout | None] = [None] * shards
        self.flow_of = flow_of or [0] * shards
        self._idle: list[list[tuple[int, int, int]]] = [[] for _ in {*self.flow_of}]
        self._held_back: set[int] = set()
        self._unbegun: set[int] = set()  # moved, and its node may still be making environments
        self.actors = [0] * shards

    def state(self) -> ShardCounts:
        """What a checkpoint keeps."""
        return ShardCounts(self.incarnations, self.rollout_ids)

    def has_idle(self, flow: int = 0) -> bool:
        """Whether some shard of a flow could start a rollout now."""
        idle = self._idle[flow]
        while idle:
            _, shard, incarnation = idle[0]
            if self.owners[shard] and incarnation == self.incarnations[shard]:
                return True
            heapq.heappop(idle)
        return False

    def open(self) -> Iterator[tuple[str, Rollout]]:
        """Every rollout that runs, and the node that was told to collect it."""
        for node, rollout in zip(self.owners, self._running, strict=True):
            if rollout is not None:
                yield node, rollout

    def assign(self, shard: int, node: str) -> Assign:
        """Give a shard that nobody has to a node, as its next incarnation."""
        self.incarnations[shard] += 1
        self.held.setdefault(node, []).append(shard)
        self._begin(shard, node)
        return Assign(shard, self.incarnations[shard])

    def rests(self, shard: int) -> bool:
        """Whether some node has the shard and collects none of its rollouts."""
        return bool(self.owners[shard]) and self._running[shard] is None

    def may_move(self, shard: int) -> bool:
        """Whether it rests, and the node that has it is known to have begun it.

        One that it came to tells so with its first rollout. Until then two nodes could make its
        environments at once, and neither would know which episodes the other has begun.
        """
        return self.rests(shard) and shard not in self._unbegun

    def move(self, shard: int, node: str) -> Assign:
        """Give a shard that may move to another node, as its next incarnation."""
        assert self.may_move(shard)
        self.held[self.owners[shard]].remove(shard)
        self._unbegun.add(shard)
        return Assign(shard, self.assign(shard, node).incarnation, True)

    def _begin(self, shard: int, node: str) -> None:
        self.owners[shard] = node
        if self._free[shard]:
            self._wait(shard)

    def hold(self, shard: int) -> None:
        """Start nothing on a shard that rests until `let_go`; costs O(shards)."""
        assert self.rests(shard)
        self._held_back.add(shard)
        idle = self._idle[self.flow_of[shard]]
        idle[:] = [entry for entry in idle if entry[1] != shard]
        heapq.heapify(idle)

    def let_go(self, shard: int) -> None:
        """Start rollouts on it again."""
        self._held_back.discard(shard)
        if self.rests(shard) and self._free[shard]:
            self._wait(shard)

    def _wait(self, shard: int) -> None:
        if shard in self._held_back:
            return
        entry = (self.rollout_ids[shard], shard, self.incarnations[shard])
        heapq.heappush(self._idle[self.flow_of[shard]], entry)

    def start(self, ticket: int, min_version: int, last_ticket: int, flow: int = 0) -> Rollout:
        """Start the next rollout of the idle shard that started fewest; ask `has_idle` first."""
        _, shard, _ = heapq.heappop(self._idle[flow])
        free = self._free[shard]
        # The lowest free slot, not the oldest: once all slots are free again the next choice
        # depends on nothing but the number of slots, so a restored run takes the same ones.
        lowest = free & -free
        self._free[shard] = free ^ lowest
        self.rollout_ids[shard] += 1
        order = RolloutOrder(
            shard=shard,
            incarnation=self.incarnations[shard],
            slot=lowest.bit_length() - 1,
            rollout_id=self.rollout_ids[shard],
            ticket=ticket,
            min_version=min_version,
            actor=self.actors[shard],
        )
        rollout = Rollout(order, last_ticket)
        self._running[shard] = rollout
        self.running += 1
        return rollout

    def complete(self, event: RolloutReady) -> Rollout | None:
        """Take note of a finished rollout; None if it is not the one that runs there."""
        shard = event.shard
        if not 0 <= shard < len(self._running):
            return None
        rollout = self._running[shard]
        if rollout is None or self.owners[shard] != event.node:
            return None
        order = rollout.order
        if (event.incarnation, event.slot, event.rollout_id) != (
            order.incarnation,
            order.slot,
            order.rollout_id,
        ):
            return None
        self._running[shard] = None
        self.running -= 1
        self._unbegun.discard(shard)
        rollout.result = event
        if rollout.place is RolloutState.RUNNING:
            rollout.place = RolloutState.STAGED
        if self._free[shard]:
            self._wait(shard)
        return rollout

    def park(self, node: str) -> list[Rollout]:
        """Take the shards of a node that is gone from it; returns what it was collecting.

        They begin their next incarnation with it, once it is back (`resume`). The number of an
        open rollout is given out again, so that the shard stays the one that has started fewest.
        """
        dropped = []
        for shard in self.held.get(node, ()):
            self.owners[shard] = ""
            self._unbegun.discard(shard)  # who comes back has begun it when it is ready
            self.incarnations[shard] += 1
            rollout, self._running[shard] = self._running[shard], None
            if rollout is not None:
                self.running -= 1
                self.rollout_ids[shard] -= 1
                self._free[shard] |= self._bit(rollout)
                dropped.append(rollout)
        return dropped

    def parked(self, node: str) -> tuple[Assign, ...]:
        """What a node begins with that comes back."""
        shards = self.held.get(node, ())
        return tuple([Assign(shard, self.incarnations[shard], True) for shard in shards])

    def resume(self, node: str) -> None:
        """A node is back and executes its shards."""
        for shard in self.held.get(node, ()):
            self._begin(shard, node)

    def release(self, rollouts: Sequence[Rollout]) -> None:
        """Free the slots of rollouts that were trained on, or came too late for it."""
        for rollout in rollouts:
            assert rollout.place in (RolloutState.TRAINING, RolloutState.LATE)
            rollout.place = RolloutState.FREED
            shard = rollout.order.shard
            full, self._free[shard] = not self._free[shard], self._free[shard] | self._bit(rollout)
            if full and self._running[shard] is None and self.owners[shard]:
                self._wait(shard)

    @staticmethod
    def _bit(rollout: Rollout) -> int:
        return 1 << rollout.order.slot


def balanced_blocks(shards: int, nodes: int) -> list[range]:
    """Contiguous blocks of shards, one per node, whose sizes differ by at most one."""
    return [range(k * shards // nodes, (k + 1) * shards // nodes) for k in range(nodes)]
