"""Which env or policy nodes there are, which come and go, and which shards move for it. Pure.

A shard moves while it rests: none of its rollouts runs, so none is lost. It begins its next
incarnation with another env node, as after a death, with episodes that were not begun before; for
a policy node that acts for it see `fast_core.scheduler.acting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Crew:
    """The env nodes of a run while it goes on, or its policy nodes.

    Attributes:
        kind: ``env`` or ``policy``.
        held: The shards of each, also while it is gone.
        members: Those that execute shards, or act for them, in the order of their names.
        joining: Started, and not ready yet.
        leaving: Members that give their shards away and are told to stop then.
        retired: Told to stop, or failed while they started, and not gone yet.
        moves: The node that each shard goes to as soon as it rests.
        asked: Number of the request that all that is done for; 0 once it is answered.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        spare: Sequence[str],
        kind: str,
        held: Mapping[str, Sequence[int]],
    ):
        """``spare`` are names of further ones that may come; ``held`` changes with the run."""
        self.kind, self.held = kind, held
        self._names = dict.fromkeys((*nodes, *spare))
        self._lived = set(nodes)
        self.members = [*nodes]
        self.joining: set[str] = set()
        self.leaving: set[str] = set()
        self.retired: set[str] = set()
        self.moves: dict[int, str] = {}
        self.asked = 0

    def knows(self, node: str) -> bool:
        """Whether it is one of them, or may be."""
        return node in self._names

    @property
    def changing(self) -> bool:
        """Whether somebody comes or goes, or a shard is about to move."""
        return bool(self.joining or self.leaving or self.retired or self.moves)

    def hire(self, count: int) -> list[tuple[str, bool]]:
        """Let so many more come; returns their names, and whether each was there before."""
        new = [name for name in self._names if name not in self.members][:count]
        self.joining.update(new)
        hired = [(name, name in self._lived) for name in new]
        self._lived.update(new)
        return hired

    def dismiss(self, count: int) -> None:
        """Let the last of them go."""
        self.leaving.update(self.members[-count:])

    def join(self, node: str) -> None:
        """A new one is ready."""
        self.joining.discard(node)
        self.members = [name for name in self._names if name in (*self.members, node)]

    def give_up(self, node: str) -> None:
        """One that comes has failed; its process ends by itself."""
        self.joining.discard(node)
        self.retired.add(node)

    def retire(self, node: str) -> None:
        """One that leaves has nothing more to do."""
        self.leaving.discard(node)
        self.members.remove(node)
        self.retired.add(node)

    def plan(self) -> None:
        """Decide anew which shards move."""
        staying = [node for node in self.members if node not in self.leaving]
        self.moves = balancing(self.held, staying)


def balancing(held: Mapping[str, Sequence[int]], staying: Sequence[str]) -> dict[int, str]:
    """The fewest moves after which ``staying`` hold all shards, none two more than another."""
    loads = {node: list(held.get(node, ())) for node in staying}
    loose = [shard for node, shards in held.items() if node not in loads for shard in shards]
    moves: dict[int, str] = {}
    for shard in sorted(loose):
        node = min(staying, key=lambda each: len(loads[each]))
        loads[node].append(shard)
        moves[shard] = node
    while True:
        most = max(staying, key=lambda each: len(loads[each]))
        least = min(staying, key=lambda each: len(loads[each]))
        if len(loads[most]) - len(loads[least]) <= 1:
            return moves
        shard = loads[most].pop()
        loads[least].append(shard)
        moves[shard] = least
