from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fast_core.monitor.trace import TraceCollector


def events_of(trace: TraceCollector, kind: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(trace.encode())["traceEvents"] if event["ph"] == kind]


def test_span_becomes_a_complete_event_in_microseconds_from_the_first(tmp_path: Path) -> None:
    trace = TraceCollector()
    trace.add("optimizer-0", "learning", 5_000_500, 5_002_000)
    trace.add("env-0", "stepping", 5_000_000, 5_001_000)
    trace.write(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert [event for event in document["traceEvents"] if event["ph"] == "X"] == [
        {"ph": "X", "pid": 1, "tid": 2, "name": "stepping", "cat": "state", "ts": 0.0, "dur": 1.0},
        {"ph": "X", "pid": 1, "tid": 1, "name": "learning", "cat": "state", "ts": 0.5, "dur": 1.5},
    ]


def test_each_node_has_a_named_track() -> None:
    trace = TraceCollector()
    for node in ("env-0", "env-1", "env-0"):
        trace.add(node, "stepping", 0, 1)
    names = {
        event["tid"]: event["args"]["name"]
        for event in events_of(trace, "M")
        if event["name"] == "thread_name"
    }
    assert names == {1: "env-0", 2: "env-1"}
    assert {event["tid"] for event in events_of(trace, "X")} == set(names)


def test_every_event_has_what_the_format_asks_for() -> None:
    trace = TraceCollector()
    for index in range(50):
        trace.add(f"env-{index % 3}", "waiting" if index % 2 else "stepping", index, index + 5)
    document = json.loads(trace.encode())
    for event in document["traceEvents"]:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["tid"], int)
        else:
            assert event["ph"] == "M" and event["args"]
    starts = [event["ts"] for event in document["traceEvents"] if event["ph"] == "X"]
    assert starts == sorted(starts)


@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_oldest_spans_make_room_and_are_counted(capacity: int) -> None:
    trace = TraceCollector(capacity)
    for index in range(20):
        trace.add("env-0", "stepping", index * 1000, index * 1000 + 500)
    kept = events_of(trace, "X")
    assert [event["ts"] for event in kept] == [float(index) for index in range(capacity)]
    assert trace.dropped == 20 - capacity
    assert json.loads(trace.encode())["otherData"] == {"dropped_spans": str(20 - capacity)}


def test_span_that_ends_before_it_starts_is_empty() -> None:
    trace = TraceCollector()
    trace.add("env-0", "stepping", 1000, 500)
    assert events_of(trace, "X")[0]["dur"] == 0


def test_empty_trace_is_valid() -> None:
    assert events_of(TraceCollector(), "X") == []


def test_capacity_must_hold_a_span() -> None:
    with pytest.raises(ValueError, match="capacity"):
        TraceCollector(0)
