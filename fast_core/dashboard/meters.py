"""Shares of the last seconds that a node worked and waited, from counters that only grow."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

from fast_core.dashboard.source import NodeNow
from fast_core.dashboard.words import node_word
from fast_core.launcher.control.messages import NodeStatus

SPAN_S = 5.0


class Reading(NamedTuple):
    """A node's counters at a moment.

    Attributes:
        at_s: The moment, on the monotonic clock.
        busy_s: Seconds of work so far, what it does now included.
        waiting_s: Likewise of waiting.
    """

    at_s: float
    busy_s: float
    waiting_s: float


class Meter:
    """Readings of the last `SPAN_S` seconds."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque()

    def take(self, reading: Reading) -> tuple[float | None, float | None]:
        """Add a reading; returns the shares of work and of waiting since the oldest one kept."""
        readings = self._readings
        if readings and reading.busy_s + reading.waiting_s < readings[-1][1] + readings[-1][2]:
            readings.clear()  # another process is this node now
        readings.append(reading)
        while len(readings) > 2 and readings[1].at_s <= reading.at_s - SPAN_S:
            readings.popleft()
        busy_s = reading.busy_s - readings[0].busy_s
        waiting_s = reading.waiting_s - readings[0].waiting_s
        if busy_s + waiting_s <= 0:
            return None, None
        return busy_s / (busy_s + waiting_s), waiting_s / (busy_s + waiting_s)


class Meters:
    """One for each node."""

    def __init__(self) -> None:
        self._meters: dict[str, Meter] = {}

    def node(self, node: NodeStatus) -> NodeNow:
        """What the page says of a node that is so now."""
        meter = self._meters.setdefault(node.name, Meter())
        busy, waiting = meter.take(Reading(time.monotonic(), node.busy_s, node.waiting_s))
        return NodeNow(node.name, node_word(node.state), node.doing_s, busy, waiting, node.life)
