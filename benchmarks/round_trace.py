"""Where the rounds of a strictly synchronous run went, from its ``trace.json``."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

IGNORED_ROUNDS = 10  # the first ones touch memory and fill caches


@dataclass(frozen=True)
class Span:
    """A node in a state, in microseconds of the trace's own time."""

    node: str
    state: str
    start: float
    end: float


def read_spans(path: Path) -> list[Span]:
    """The spans of a trace, by start."""
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = [
        Span(names[e["tid"]], e["name"], e["ts"], e["ts"] + e["dur"])
        for e in events
        if e["ph"] == "X"
    ]
    return sorted(found, key=lambda span: span.start)


def round_parts(path: Path) -> dict[str, float]:
    """Medians over rounds, in milliseconds.

    A round goes from one beginning of learning to the next: ``learning`` and publishing, the
    ``order`` on its way to the first env node, ``collecting`` until the last node is through
    (``stepping`` is the mean of the nodes, so what lies between the two is nodes that did not
    run side by side), and the ``report`` on its way to the learner.
    """
    spans = read_spans(path)
    learning = [span for span in spans if span.state == "learning"][IGNORED_ROUNDS:]
    stepping = [span for span in spans if span.state == "stepping"]
    rounds = []
    for this, following in pairwise(learning):
        inside = [s for s in stepping if this.end <= s.start and s.end <= following.start]
        if inside:
            first, last = min(s.start for s in inside), max(s.end for s in inside)
            nodes = len({s.node for s in inside})
            rounds.append(
                {
                    "round_ms": following.start - this.start,
                    "learning_ms": this.end - this.start,
                    "order_ms": first - this.end,
                    "collecting_ms": last - first,
                    "stepping_ms": sum(s.end - s.start for s in inside) / nodes,
                    "report_ms": following.start - last,
                }
            )
    if not rounds:
        raise RuntimeError(f"{path} holds no rounds; the run was too short")
    return {name: statistics.median(r[name] for r in rounds) / 1000 for name in rounds[0]}


def mean_span_s(path: Path, state: str) -> float:
    """Mean length of a state of all nodes, without the first quarter; the trace has to be there."""
    found = [span for span in read_spans(path) if span.state == state]
    if not found:
        raise RuntimeError(f"{path} holds no {state!r}; the run was too short")
    counted = found[len(found) // 4 :]
    return statistics.fmean(span.end - span.start for span in counted) / 1e6
