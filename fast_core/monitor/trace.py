"""``trace.json``: what each node was doing, on one time line that Perfetto and Chrome open."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fast_core.system.durable import write_durably

_FIELDS = 4  # node, state, start, end


class TraceCollector:
    """Collects state spans in memory whose size is fixed; the oldest make room for new ones.

    Args:
        capacity: Spans kept; each takes 32 bytes.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 span; got {capacity!r}")
        self._capacity = capacity
        self._spans = array("q")
        self._added = 0
        self._nodes: dict[str, int] = {}
        self._states: dict[str, int] = {}

    @property
    def dropped(self) -> int:
        """Spans that made room for newer ones."""
        return max(self._added - self._capacity, 0)

    def add(self, node: str, state: str, start_ns: int, end_ns: int) -> None:
        """Note that a node was in a state from one monotonic moment to another.

        A span that ends before it starts is taken as empty.
        """
        node_index = self._nodes.setdefault(node, len(self._nodes))
        state_index = self._states.setdefault(state, len(self._states))
        span = (node_index, state_index, start_ns, max(start_ns, end_ns))
        if self._added < self._capacity:
            self._spans.extend(span)
        else:
            place = self._added % self._capacity * _FIELDS
            self._spans[place : place + _FIELDS] = array("q", span)
        self._added += 1

    def write(self, path: Path) -> None:
        """Write everything kept, whole or not at all.

        Raises:
            OSError: The file can't be written.
        """
        write_durably(path, self.encode())

    def encode(self) -> bytes:
        """The trace in Chrome's JSON format: one track for each node, times in microseconds."""
        document = {
            "displayTimeUnit": "ms",
            "otherData": {"dropped_spans": str(self.dropped)},
            "traceEvents": [*self._names(), *self._events()],
        }
        return msgspec.json.encode(document)

    def _names(self) -> Iterator[dict[str, object]]:
        named = {"ph": "M", "pid": 1}
        yield {**named, "name": "process_name", "args": {"name": "FastLoop"}}
        for node, index in self._nodes.items():
            track = {**named, "tid": index + 1}
            yield {**track, "name": "thread_name", "args": {"name": node}}
            yield {**track, "name": "thread_sort_index", "args": {"sort_index": index}}

    def _events(self) -> Iterator[dict[str, object]]:
        states = list(self._states)
        spans = self._spans
        starts = spans[2::_FIELDS]
        origin = min(starts) if starts else 0
        for place in sorted(range(len(starts)), key=starts.__getitem__):
            node, state, start, end = spans[place * _FIELDS : (place + 1) * _FIELDS]
            yield {
                "ph": "X",
                "pid": 1,
                "tid": node + 1,
                "name": states[state],
                "cat": "state",
                "ts": (start - origin) / 1000,
                "dur": (end - start) / 1000,
            }
