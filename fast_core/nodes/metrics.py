"""The metrics node: the one writer of a run's metrics, so that slow disks never slow training."""

from __future__ import annotations

import os

from fast_core.events import Command, Ready, Record
from fast_core.monitor.metrics_writer import MetricsWriter
from fast_core.nodes.node import Node, NodeContext, NodeState

NICENESS = 10


class MetricsNode(Node):
    """Writes ``metrics.jsonl`` and TensorBoard files."""

    consumes = frozenset({Record})
    emits = frozenset({Ready})
    finishes_inbox = True

    def __init__(self, context: NodeContext) -> None:
        """Open nothing yet: the writer imports its libraries at the first record."""
        super().__init__(context)
        plan, log = context.plan, context.log
        self._writer = MetricsWriter(
            plan.run_directory,
            tensorboard=plan.config.metrics.tensorboard,
            report=log.warning,
        )
        if plan.continued_env_steps is not None:
            self._writer.truncate_after(plan.continued_env_steps)

    def setup(self) -> None:
        """Yield the processor to whoever trains."""
        if self.context.plan.config.mode == "process":
            os.nice(NICENESS)

    def handle(self, command: Command) -> None:
        """Write one row."""
        if isinstance(command, Record):
            with self.state(NodeState.WRITING, f"writing metrics of env step {command.env_steps}"):
                self._writer.write(command)

    def close(self) -> None:
        """Flush and close the files."""
        self._writer.close()
