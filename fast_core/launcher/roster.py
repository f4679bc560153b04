"""Which nodes of a run are there: those that come and go, and those that die and come back."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from fast_core.memory import StatsColumn, StatsRow
from fast_core.messages import Failed, NodeExited, Ready, Restoring
from fast_core.messages.launching import Respawn
from fast_core.nodes.node import NodeState
from fast_core.run.names import Names
from fast_core.system.process_state import is_traced

# How long the news of a node's death may take from the kernel through the fork server.
EXIT_NEWS_S = 1.0


class Roster:
    """What the launcher knows of the nodes' lives; it starts and ends none.

    Attributes:
        stats: The counters of each node.
        absent: Nodes that may come while the run goes on and are not there.
        coming: Those that were started for it and are not ready.
        lost: Nodes that died and come back.
        optional: Nodes that the run goes on without.
        away: Those of them that are not ready.
        lives: How often each node died so far.
        dying: Nodes whose end is known before their exit: when to help, and why.
        restoring: Since when env nodes step open episodes again, and how far they are.
        pids: The process of each node that was ready.
    """

    def __init__(
        self,
        names: Names,
        stats: Mapping[str, StatsRow],
        *,
        awaited: Sequence[str],
        optional: Collection[str],
        deaths: Mapping[str, int],
    ) -> None:
        """``awaited`` are those that the scheduler waits for, spare ones aside.

        ``deaths`` is how often which others had died before.
        """
        self.stats, self._awaited = stats, (*awaited, *names.absent)
        self.absent = set(names.absent)
        self.coming: set[str] = set()
        self.lost: set[str] = set()
        self.optional = frozenset(optional)
        self.away = set(optional)
        self.lives = dict(deaths)
        self.dying: dict[str, tuple[float, Failed]] = {}
        self.restoring: dict[str, tuple[float, Restoring]] = {}
        self.pids: dict[str, int] = {}
        # Nodes that the run needs to begin and that were never ready; one that leaves later was.
        self._missing = dict.fromkeys(name for name in names.all if name not in self.optional)
        self._unreachable: dict[str, tuple[float, NodeExited]] = {}
        self._respawns: list[Respawn] = []
        self._retired: list[str] = []

    def ready(self, event: Ready) -> bool:
        """A node is there; whether it had been lost."""
        node = event.node
        was_lost = node in self.lost
        self.pids[node] = event.pid
        self._missing.pop(node, None)
        self.lost.discard(node)
        self.coming.discard(node)
        self.away.discard(node)
        return was_lost

    def restores(self, event: Restoring, now_s: float) -> None:
        """An env node steps open episodes again."""
        since_s, _ = self.restoring.get(event.node, (now_s, event))
        self.restoring[event.node] = since_s, event

    def died(self, node: str) -> int:
        """A node that is started anew is gone; returns how often it has died."""
        self._unreachable.pop(node, None)
        self.dying.pop(node, None)
        if node in self.optional:  # the scheduler says what follows
            self.away.add(node)
            self.pids.pop(node, None)
        else:
            self.lost.add(node)
        life = self.lives[node] = self.lives.get(node, 0) + 1
        return life

    def left(self, node: str) -> None:
        """A node is gone, and the run goes on without it."""
        self.absent.add(node)
        self.coming.discard(node)
        self.pids.pop(node, None)
        self._unreachable.pop(node, None)

    def retire(self, node: str) -> None:
        """A node is to stop while the run goes on: it was told to, or has failed as it came."""
        self.left(node)
        self._retired.append(node)

    @property
    def has_orders(self) -> bool:
        """Whether there are nodes to start or to watch the end of: the two that follow."""
        return bool(self._respawns or self._retired)

    def take_retired(self) -> list[str]:
        """Nodes that are to stop while the run goes on and were not taken yet."""
        retired, self._retired = self._retired, []
        return retired

    def respawn(self, command: Respawn) -> None:
        """A node is to be started: anew, or for the first time."""
        if command.node in self.absent:
            self.absent.discard(command.node)
            self.coming.add(command.node)
        self._respawns.append(command)

    def take_respawns(self) -> list[Respawn]:
        """Nodes to start anew that were not taken yet."""
        respawns, self._respawns = self._respawns, []
        return respawns

    def unreachable(self, node: str, why: str) -> None:
        """A node took no message: most likely it died, and the news of how is on its way."""
        gone = (time.monotonic() + EXIT_NEWS_S, NodeExited(node, why))
        self._unreachable.setdefault(node, gone)

    def take_unreachable(self) -> list[NodeExited]:
        """Nodes that took no message and of whose death nothing was heard since."""
        now_s = time.monotonic()
        due = [event for due_s, event in self._unreachable.values() if now_s >= due_s]
        for event in due:
            del self._unreachable[event.node]
        return due

    def is_there(self, name: str) -> bool:
        """Whether a node that was started anew is ready."""
        return name not in self.lost | self.coming | self.away

    def gone(self) -> set[str]:
        """Nodes of which nothing is expected: not there, or known to end."""
        return self.lost | self.absent | self.coming | self.away | self.dying.keys()

    def state_of(self, name: str) -> str:
        """What a node does, in a word."""
        if name in self.lost:
            return "dead"
        if name in self.away:
            return "away"
        return NodeState(self.stats[name].words[StatsColumn.STATE]).name.lower()

    def missing(self) -> list[str]:
        """Nodes that the run needs to begin and that were never ready."""
        return [*self._missing]

    def idle_since_s(self) -> float | None:
        """Since when none of those that the scheduler waits for has been at work."""
        if self.lost or any(map(is_traced, self.pids.values())):
            return None
        since_ns = 0
        for name in self._awaited:
            if name in self.absent:
                continue
            words = self.stats[name].words
            if words[StatsColumn.STATE] != NodeState.WAITING:
                return None
            since_ns = max(since_ns, words[StatsColumn.STATE_SINCE_NS])
        return since_ns / 1e9
