"""What a run leaves for people: the trace and the report."""

from __future__ import annotations

from fast_core.monitor.progress import Progress
from fast_core.monitor.report import write_report
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.trace import TraceCollector
from fast_core.nodes.node import NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.run.structures import SPAN
from fast_core.system.durable import write_durably
from fast_core.system.text import encodable

_MOST_BYTES = 256 * 1024
_STATES = {int(state): state.name.lower() for state in NodeState}


class TraceDrain:
    """Moves finished states from the nodes' rings into the trace; the rings' only consumer."""

    def __init__(self, plan: RunPlan, memory: RunMemory) -> None:
        self._rings = {name: memory.spans(name) for name in plan.names.possible}
        self._collector = TraceCollector()

    def drain(self) -> None:
        """Take everything that the nodes have recorded."""
        for node, ring in self._rings.items():
            for _ in range(len(ring)):  # what is there now; the node may be adding more
                state, start_ns, end_ns = SPAN.unpack(ring.pop(timeout_s=0))
                self._collector.add(node, _STATES[state], start_ns, end_ns)

    def write(self, run: RunDirectory) -> None:
        """Write ``trace.json``."""
        self.drain()
        self._collector.write(run.trace)


def add_crash(run: RunDirectory, text: str, progress: Progress) -> None:
    """Add a failure that the run survives to ``crash.txt``, unless that has become long.

    The first ones say most. Training goes on meanwhile, so no disk is waited for.
    """
    try:
        with open(run.crash, "ab") as file:
            if file.tell() < _MOST_BYTES:
                file.write(encodable(text).encode())
    except OSError as error:
        progress.say(f"can't write {run.crash}: {error}")


def write_crash(run: RunDirectory, text: str, progress: Progress) -> None:
    """Write why the run failed to the end of ``crash.txt``.

    A full disk is told, and the text is on the screen anyway.
    """
    try:
        before = run.crash.read_bytes() if run.crash.exists() else b""
        write_durably(run.crash, before + encodable(text).encode())
    except OSError as error:
        progress.say(f"can't write {run.crash}: {error}")


def write_records(run: RunDirectory, trace: TraceDrain, progress: Progress) -> None:
    """Write trace and report; a full disk is told and does not change how the run ended."""
    try:
        trace.write(run)
        write_report(run)
    except OSError as error:
        progress.say(f"can't write trace or report: {error}")
