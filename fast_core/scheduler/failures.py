"""What happens when a node fails: the run ends with the first cause, or goes on without the node.

It goes on after a death only, never after an error, and only of an env node, whose shards others
can take over, as often as `Deaths` has leave for.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from fast_core.events import Failed, NodeExited


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


class Deaths:
    """The shards of each living env node and the budget of deaths.

    A death costs O(log nodes) for each shard that moves. In the heap of loads an entry is valid
    only while it says the load that its node has; others are skipped when they come up.

    Attributes:
        lost: Env nodes that died and whose death the run survived.
        left: Further deaths that it survives.
    """

    def __init__(self, env_nodes: tuple[str, ...], budget: int):
        self.lost: set[str] = set()
        self.left = budget
        self._rank = {node: rank for rank, node in enumerate(env_nodes)}
        self._nodes = env_nodes
        self._shards: dict[str, list[int]] = {node: [] for node in env_nodes}
        self._loads: list[tuple[int, int]] = [(0, rank) for rank in range(len(env_nodes))]

    def give(self, shard: int, node: str) -> None:
        """Note that ``node`` executes ``shard`` from now on."""
        shards = self._shards[node]
        shards.append(shard)
        if self.left or self.lost:  # otherwise nobody will ever ask
            heapq.heappush(self._loads, (len(shards), self._rank[node]))

    def survives(self, event: NodeExited) -> bool:
        """Whether the run goes on without this node.

        Only if it is gone for sure: two nodes that write the same shard would be worse than the
        end of the run.
        """
        others = len(self._shards) > 1
        return event.reaped and event.node in self._shards and others and self.left > 0

    def bury(self, node: str) -> list[int]:
        """Take the node out; returns the shards that it executed."""
        self.lost.add(node)
        self.left -= 1
        return self._shards.pop(node)

    def least_loaded(self) -> str:
        """The living env node with the fewest shards, the first of those in order."""
        while True:
            load, rank = self._loads[0]
            shards = self._shards.get(self._nodes[rank])
            if shards is not None and len(shards) == load:
                return self._nodes[rank]
            heapq.heappop(self._loads)


def describe_move(event: NodeExited, shards: list[int], dropped: int, left: int) -> str:
    """What happened, for people."""
    return (
        f"{event.node} is gone: {event.cause}; its {len(shards)} shards move to other env nodes, "
        f"{dropped} open rollouts are dropped and ordered anew; {left} more deaths of env nodes "
        "would be survived (supervision.env_restarts)"
    )
