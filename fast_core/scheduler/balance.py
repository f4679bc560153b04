"""Which shards are better off with other env nodes, by what rollouts take the nodes. Pure.

The same of policy nodes, by what requests take those: read "request" for "rollout" then.

A node's load is its number of shards times what a rollout takes it. A shard moves from the node
with the most to one that would end up with the least, if the greater load of the two falls by more
than `GAIN`, noise allowed for: the one is taken to be as quick, and the other as slow, as `SURE`
standard errors of their means leave room for. So every move makes the pair better, and none is
made, or taken back, for noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

GAIN = 0.1
SURE = 2.0
LEAST_SAMPLES, MOST_SAMPLES = 3, 16  # before a mean counts, and that it is about


class Move(NamedTuple):
    """A shard, where it goes, and why, for people."""

    shard: int
    node: str
    why: str


class Load:
    """What a rollout takes one node: a mean that forgets, and its error."""

    def __init__(self) -> None:
        self.mean_s = self._variance = 0.0
        self.samples = 0
        self.skips = 0  # rollouts that the making of environments holds up

    def add(self, served_s: float) -> None:
        """Take one more rollout into account."""
        if self.skips:
            self.skips -= 1
            return
        self.samples = min(self.samples + 1, MOST_SAMPLES)
        off_s = served_s - self.mean_s
        self.mean_s += off_s / self.samples
        self._variance += (off_s * (served_s - self.mean_s) - self._variance) / self.samples

    @property
    def error_s(self) -> float:
        """How far off the mean may well be."""
        return SURE * math.sqrt(self._variance / max(self.samples - 1, 1))


class Loads:
    """What a rollout takes each env node; a rollout costs O(1), a proposal O(nodes) a move."""

    def __init__(self, what: str = "rollout") -> None:
        self._what = what
        self._loads: dict[str, Load] = {}

    def completed(self, node: str, served_s: float) -> None:
        """Note that a node has collected a rollout, which took it so long."""
        self._of(node).add(served_s)

    def moved(self, node: str) -> None:
        """Note that a node makes a shard's environments before its next rollout."""
        load = self._of(node)
        load.skips += 1
        load.samples = min(load.samples, LEAST_SAMPLES - 1)

    def bury(self, node: str) -> None:
        """Note that a node is dead: what it will be like when it is back is not known."""
        self._loads.pop(node, None)

    def _of(self, node: str) -> Load:
        return self._loads.setdefault(node, Load())

    def proposals(self, held: Mapping[str, Sequence[int]], nodes: Sequence[str]) -> list[Move]:
        """The moves that make most of it; none where too little is known.

        ``held`` are the shards of each node.
        """
        shards = {node: list(held.get(node, ())) for node in nodes if node in self._loads}
        working = [node for node in nodes if held.get(node)]
        if len(shards) < 2 or any(self._of(n).samples < LEAST_SAMPLES for n in working):
            return []
        moves = []
        while (move := self._best(shards)) is not None:
            moves.append(move)
            shards[move.node].append(move.shard)
        return moves

    def _best(self, shards: dict[str, list[int]]) -> Move | None:
        """The next move, whose shard is taken from its node; None where none pays."""
        mean_s = {node: self._loads[node].mean_s for node in shards}
        source = max(shards, key=lambda node: len(shards[node]) * mean_s[node])
        others = [node for node in shards if node != source]
        target = min(others, key=lambda node: (len(shards[node]) + 1) * mean_s[node])
        slow_s = mean_s[source] - self._loads[source].error_s
        fast_s = mean_s[target] + self._loads[target].error_s
        before_s = len(shards[source]) * slow_s
        after_s = max(before_s - slow_s, (len(shards[target]) + 1) * fast_s)
        if after_s >= (1 - GAIN) * before_s:
            return None
        shard = shards[source].pop()
        why = (
            f"shard {shard} from {source} to {target}: a {self._what} takes "
            f"{mean_s[source]:.3g} s there and {mean_s[target]:.3g} s here"
        )
        return Move(shard, target, why)
