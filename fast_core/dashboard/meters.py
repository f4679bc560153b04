"""Shares of the last seconds that nodes waited, from counters that only grow."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from typing import NamedTuple

from fast_core.dashboard.source import NodeNow
from fast_core.messages.requests import NodeStatus

SPAN_S = 5.0


class Reading(NamedTuple):
    """A node's counters at a moment.

    Attributes:
        at_s: The moment, on the monotonic clock.
        all_s: Seconds of work and of waiting so far, what it does now included.
        waiting_s: Those of waiting.
    """

    at_s: float
    all_s: float
    waiting_s: float


class Meters:
    """Readings of each node of the last `SPAN_S` seconds."""

    def __init__(self) -> None:
        self._readings: defaultdict[str, deque[Reading]] = defaultdict(deque)

    def node(self, node: NodeStatus) -> NodeNow:
        """What the page says of a node that is so now."""
        now = Reading(time.monotonic(), node.busy_s + node.waiting_s, node.waiting_s)
        state = "dead" if node.state == "away" else node.state
        return NodeNow(node.name, state, self._waiting(self._readings[node.name], now))

    def _waiting(self, readings: deque[Reading], now: Reading) -> float | None:
        """The share of waiting since the oldest reading kept."""
        if readings and now.all_s < readings[-1].all_s:
            readings.clear()  # another process is this node now
        readings.append(now)
        while len(readings) > 2 and readings[1].at_s <= now.at_s - SPAN_S:
            readings.popleft()
        all_s = now.all_s - readings[0].all_s
        return (now.waiting_s - readings[0].waiting_s) / all_s if all_s > 0 else None
