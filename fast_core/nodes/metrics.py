"""The metrics node: the one writer of a run's metrics, so that slow disks never slow training."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import msgspec

from fast_core.messages import Command, Finish, Ready, Record
from fast_core.messages.metrics import RunEnd, RunStart
from fast_core.monitor.metrics_writer import MetricsWriter
from fast_core.monitor.sinks import SinkThread, end_all, make_sink
from fast_core.nodes.node import Node, NodeContext, NodeState

NICENESS = 10


class MetricsNode(Node):
    """Writes ``metrics.jsonl`` itself and feeds the sinks, each in a thread of its own."""

    consumes = frozenset({Record, Finish})
    emits = frozenset({Ready})
    finishes_inbox = True

    def __init__(self, context: NodeContext) -> None:
        """Open nothing yet: the writer does at the first record, sinks with their threads."""
        super().__init__(context)
        plan = context.plan
        self._summary = RunEnd(outcome="failed", text="the metrics node was not told how it ended")
        self._writer = MetricsWriter(plan.run_directory, report=context.log.warning)
        self._sinks: list[SinkThread] = []

    def setup(self) -> None:
        """Yield the processor to whoever trains; set aside what a resume replaces."""
        plan = self.context.plan
        if plan.config.mode == "process":
            os.nice(NICENESS)
        continued = plan.continued_env_steps
        start = RunStart(
            name=plan.config.name,
            directory=Path(plan.run_directory),
            config=msgspec.to_builtins(plan.config),
            continued_env_steps=continued,
            written={} if continued is None else self._writer.written(),
        )
        if continued is not None:
            self._writer.truncate_after(continued)
        for index, sink in enumerate(plan.config.metrics.used_sinks):
            make = partial(make_sink, sink, f"metrics.sinks[{index}]")
            self._sinks.append(SinkThread(sink.name, make, start, self.context.log.warning))

    def handle(self, command: Command) -> None:
        """Write one row, or keep how the run ended."""
        if isinstance(command, Record):
            with self.state(NodeState.WRITING, f"writing metrics of env step {command.env_steps}"):
                row = self._writer.write(command)
                if row is not None:
                    for sink in self._sinks:
                        sink.put(row)
        elif isinstance(command, Finish):
            self._summary = command.summary

    def close(self) -> None:
        """Close the file, and give the sinks their time to finish."""
        self._writer.close()
        end_all(self._sinks, self._summary, self.context.plan.config.metrics.end_timeout_s)
