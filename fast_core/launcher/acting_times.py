"""What acting takes each policy node, read from its counters while the run goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping

from fast_core.memory import StatsRow
from fast_core.messages.launching import Acted
from fast_core.nodes.node import NodeState

INTERVAL_S = 1.0


class ActingTimes:
    """Compares the counters of policy nodes with those of the last look."""

    def __init__(self, rows: Mapping[str, StatsRow]) -> None:
        """``rows`` of those to be compared; none where nobody asks for it."""
        self._rows = rows
        self._before: dict[str, tuple[int, int]] = {}
        self._next_s = 0.0

    def look(self, now_s: float) -> list[Acted]:
        """What each has done since, if it is time to; nothing of one that answered nobody."""
        if now_s < self._next_s:
            return []
        self._next_s = now_s + INTERVAL_S
        found = []
        for node, row in self._rows.items():
            now = row.snapshot()
            busy_ns = now.busy_ns
            if now.state == NodeState.ACTING:
                busy_ns += max(0, time.monotonic_ns() - now.state_since_ns)
            requests, before = now.requests, self._before.get(node, (0, 0))
            self._before[node] = requests, busy_ns
            answered, took_ns = requests - before[0], busy_ns - before[1]
            if before != (0, 0) and answered > 0 and took_ns > 0:
                found.append(Acted(node, answered, took_ns / 1e9))
        return found
