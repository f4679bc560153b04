"""The optimizer node of algorithms that learn from rollouts: trains on merged tickets."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from fast_core.algorithm import RolloutBatch
from fast_core.memory import StatsColumn
from fast_core.messages import Change, Command, Save, Snapshot, Train
from fast_core.nodes.learn.contract import checked_report
from fast_core.nodes.learn.learning import LearningNode
from fast_core.nodes.node import NodeContext, NodeState
from fast_core.nodes.rollout_reader import RolloutReader


class OptimizerNode(LearningNode):
    """Trains on one ticket at a time, in ticket order.

    Concurrency: it reads rollout slots in place; the scheduler does not give a slot out again
    before `Trained`.
    """

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
        with self.state(NodeState.LEARNING, f"training on ticket {command.ticket}"):
            rollouts = tuple(self._rollouts.view(ref) for ref in command.rollouts)
            started_ns = time.monotonic_ns()
            progress = self.context.plan.config.progress(command.env_steps)
            batch = RolloutBatch(rollouts, command.env_steps, progress, self._version)
            report = checked_report(self.algorithm.update(batch), replayed=False)
            self._version += report.updates
            metrics = {**report.metrics, "update_ms": (time.monotonic_ns() - started_ns) / 1e6}
        self.context.stats.words[StatsColumn.UPDATES] = self._version
        versions = np.concatenate([rollout.policy_version for rollout in rollouts])
        acted = float(versions.mean()), int(versions.min())
        self.answer(command, replace(report, metrics=metrics), acted)
