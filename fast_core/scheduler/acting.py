"""Which policy node acts for each shard, and how a shard comes to another one. Pure.

It does so while it rests: none of its rollouts runs, so no request is open. It begins none until
the policy node that acted for it has said that it does no more (`Left`), or is dead; then the other
one is told (`Serve`), and orders name it. So of each reply there is one writer at a time, and
nothing that was asked is lost.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from fast_core.messages import Leave, Left, Serve
from fast_core.messages.launching import Acted
from fast_core.scheduler.balance import Loads
from fast_core.scheduler.crew import Crew
from fast_core.scheduler.ledger import Ledger


class Acting:
    """The policy nodes, and the shards of each; nothing where policies act in the env nodes.

    Attributes:
        crew: Which of them there are, and which come, go or take shards over.
        held: The shards that each acts for.
        loads: What a request takes each of them, None where shards stay where they are.
    """

    def __init__(
        self, nodes: Sequence[str], spare: Sequence[str], ledger: Ledger, *, balance: bool
    ):
        """Shard ``S`` begins with policy node ``S`` modulo their number."""
        self.loads = Loads("request") if balance else None
        self.held: dict[str, list[int]] = {}
        self.crew = Crew(nodes, spare, "policy", self.held)
        self._ledger = ledger
        self._ranks = {name: rank for rank, name in enumerate((*nodes, *spare))}
        self._nodes: list[str] = []
        self._told: set[int] = set()  # shards whose policy node was told to leave them
        if nodes:
            for shard in range(len(ledger.owners)):
                self._nodes.append("")
                self._give(shard, nodes[shard % len(nodes)])

    def _give(self, shard: int, node: str) -> None:
        self._nodes[shard] = node
        self.held.setdefault(node, []).append(shard)
        self._ledger.actors[shard] = self._ranks[node]

    @property
    def told(self) -> list[tuple[str, int]]:
        """Who was told to leave which shard and has not said so."""
        return [(self._nodes[shard], shard) for shard in sorted(self._told)]

    def may_begin(self, shard: int, away: Set[str]) -> bool:
        """Whether the move of this shard can begin, and not from a living node to a dead one."""
        pays = self.crew.moves[shard] not in away or self._nodes[shard] in away
        return pays and shard not in self._told and self._ledger.rests(shard)

    def begin(self, shard: int) -> tuple[str, Leave]:
        """Let a shard rest until it has come to another node; returns who is told, and what."""
        self._ledger.hold(shard)
        self._told.add(shard)
        return self._nodes[shard], Leave(shard)

    def awaits(self, event: Left) -> bool:
        """Whether this was to come."""
        return event.shard in self._told and self._nodes[event.shard] == event.node

    def move(self, shard: int) -> tuple[str, Serve]:
        """Nobody acts for a shard any more: give it to whom it is to go; returns who is told.

        If it is to go nowhere any more, it stays.
        """
        before = self._nodes[shard]
        self.held[before].remove(shard)
        node = self.crew.moves.pop(shard, before)
        self._give(shard, node)
        if self.loads is not None and node != before:
            self.loads.moved(node)
        self._told.discard(shard)
        self._ledger.let_go(shard)
        return node, Serve((shard,))

    def acted(self, event: Acted) -> None:
        """Take note of what requests took a node."""
        if self.loads is not None and event.node in self.crew.members:
            self.loads.completed(event.node, event.busy_s / event.requests)

    def bury(self, node: str) -> list[int]:
        """Shards that a dead node was told to leave: it does now."""
        if self.loads is not None:
            self.loads.bury(node)
        return [shard for shard in sorted(self._told) if self._nodes[shard] == node]

    def again(self, node: str) -> Serve:
        """What a node is told that has come back."""
        return Serve(tuple(sorted(self.held.get(node, ()))))
