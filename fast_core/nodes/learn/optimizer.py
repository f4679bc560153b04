"""The optimizer node of algorithms that learn from rollouts: trains on merged tickets."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from fast_core.algorithm import RolloutBatch
from fast_core.memory import StatsColumn
from fast_core.messages import (
    Change,
    Changed,
    Command,
    Ready,
    Save,
    Saved,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.nodes.learn.contract import checked_report
from fast_core.nodes.learn.learning import LearningNode
from fast_core.nodes.node import NodeContext, NodeState
from fast_core.nodes.rollout_reader import RolloutReader


class OptimizerNode(LearningNode):
    """Trains on one ticket at a time, in ticket order.

    Concurrency: it reads rollout slots in place; the scheduler does not give a slot out again
    before `Trained`.
    """

    consumes = frozenset({Train, Snapshot, Change, Save})
    emits = frozenset({Ready, Trained, SnapshotTaken, Changed, Saved})
    reads = LearningNode.reads | {"rollouts"}

    def __init__(self, context: NodeContext) -> None:
        """Attach memory; the learner is built in `setup`, because it may import torch."""
        super().__init__(context)
        self._rollouts = RolloutReader(context.plan, context.memory)

    def setup(self) -> None:
        """Build the learner, restore it, publish its first weights."""
        super().setup()
        if self.context.plan.checkpoint is not None:
            self.restore(Path(self.context.plan.checkpoint) / self.learner_file)
        else:
            self.begin()
        self.use(self.context.plan.changed)
        self.publish()

    def handle(self, command: Command) -> None:
        """Train, snapshot, change or save; the channel's order is the order of the run."""
        match command:
            case Train():
                self._train(command)
            case Snapshot(request):
                self.snapshot(request)
            case Change():
                self.change(command)
            case Save(checkpoint, directory):
                self.save(checkpoint, Path(directory))

    def work(self) -> bool:
        """Show what was learned to those who look."""
        self.show()
        return False

    def _train(self, command: Train) -> None:
        name, config = self.context.name, self.context.plan.config
        with self.state(NodeState.LEARNING, f"training on ticket {command.ticket}"):
            rollouts = tuple(self._rollouts.view(ref) for ref in command.rollouts)
            before, started_ns = self._version, time.monotonic_ns()
            progress = config.progress(command.env_steps)
            batch = RolloutBatch(rollouts, command.env_steps, progress, before)
            report = checked_report(self.algorithm.update(batch), replayed=False)
            self._version += report.updates
            self._env_steps = command.env_steps + config.rows_per_ticket
            metrics = {
                **report.metrics,
                "update_ms": (time.monotonic_ns() - started_ns) / 1e6,
            }
        publish_s = 0.0
        if report.updates:  # otherwise the version on the board is still the newest
            with self.state(NodeState.PUBLISHING, f"publishing version {self._version}"):
                publish_s = self.publish()
        versions = np.concatenate([rollout.policy_version for rollout in rollouts])
        last = max(0, report.updates - 1)
        self.context.stats.words[StatsColumn.UPDATES] = self._version
        self.context.channel.send(
            Trained(
                node=name,
                ticket=command.ticket,
                version=self._version,
                updates=report.updates,
                skipped=report.skipped,
                lag_mean=before - float(versions.mean()) + last / 2,
                lag_max=before - int(versions.min()) + last,
                metrics=metrics,
                digest=self.digest() if config.diagnostics.digests else "",
                publish_s=publish_s,
                checksum=self.checksum,
            )
        )
