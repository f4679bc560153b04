"""Shares of the last seconds that a node worked and waited, from counters that only grow."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

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
