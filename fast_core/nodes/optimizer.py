"""The optimizer node: owns the learner, trains on merged tickets, publishes weights."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from fast_core.algorithm import Algorithm, RolloutBatch, ShardRollout
from fast_core.errors import CheckpointError, SegmentError
from fast_core.events import (
    Command,
    Ready,
    RolloutRef,
    Save,
    Saved,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.memory import StatsColumn
from fast_core.node import Node, NodeContext, NodeState
from fast_core.nodes.contract import checked_report, make_learner
from fast_core.nodes.devices import check_device
from fast_core.nodes.digest import digest
from fast_core.nodes.learner_file import check, load, save
from fast_core.nodes.rollouts import RolloutReader
from fast_core.run_memory import RolloutRecord
from fast_core.threads import set_threads

LEARNER_FILE = "learner.msgpack"


class OptimizerNode(Node):
    """Trains on one ticket at a time, in ticket order.

    Concurrency: the only writer of the weight board and of the evaluation slot, and the only
    consumer of every shard's record ring. It reads rollout slots in place; the scheduler does not
    give a slot out again before `Trained`.
    """

    consumes = frozenset({Train, Snapshot, Save})
    emits = frozenset({Ready, Trained, SnapshotTaken, Saved})

    def __init__(self, context: NodeContext) -> None:
        """Attach memory; the learner is built in `setup`, because it imports torch."""
        super().__init__(context)
        memory, shards = context.memory, range(context.plan.config.rollout.shards)
        self._weights, self._evaluation = memory.weights(), memory.evaluation()
        self._flat = memory.parameters.empty()
        self._rollouts = RolloutReader(context.plan, memory)
        self._records = [memory.records(shard) for shard in shards]
        self._algorithm: Algorithm | None = None
        self._version = self._env_steps = 0

    def setup(self) -> None:
        """Build the learner, restore it, publish its first weights."""
        plan = self.context.plan
        optimizer = plan.config.nodes.optimizer
        if optimizer.device != "cpu":
            check_device(optimizer.device, "nodes.optimizer.device")
        set_threads(self.threads)
        self._algorithm = make_learner(plan)
        if plan.saves:
            check(self._algorithm.state_dict())
        if plan.checkpoint is not None:
            self._restore(Path(plan.checkpoint))
        self._publish()

    @property
    def threads(self) -> int:
        """As configured, or as resolved from the size of an update."""
        return self.context.plan.threads

    @property
    def algorithm(self) -> Algorithm:
        """The learner.

        Raises:
            RuntimeError: Before `setup`.
        """
        if self._algorithm is None:
            raise RuntimeError("the learner is built in setup(), which has not run")
        return self._algorithm

    def handle(self, command: Command) -> None:
        """Train, snapshot or save; the channel's order is the order of the run."""
        match command:
            case Train():
                self._train(command)
            case Snapshot(request):
                self._snapshot(request)
            case Save(checkpoint, directory):
                with self.state(NodeState.SAVING, f"saving checkpoint {checkpoint}"):
                    self._save(Path(directory))
                self.context.channel.send(Saved(self.context.name, checkpoint, (LEARNER_FILE,)))

    # --- training ------------------------------------------------------------------------------

    def _train(self, command: Train) -> None:
        name, config = self.context.name, self.context.plan.config
        with self.state(NodeState.LEARNING, f"training on ticket {command.ticket}"):
            rollouts = tuple(self._rollout(ref) for ref in command.rollouts)
            limit = config.stop.env_steps
            progress = min(1.0, command.env_steps / limit) if limit else 0.0
            before, started_ns = self._version, time.monotonic_ns()
            batch = RolloutBatch(rollouts, command.env_steps, progress)
            report = checked_report(self.algorithm.update(batch))
            self._version += report.updates
            self._env_steps = command.env_steps + config.rows_per_ticket
            metrics = {
                **report.metrics,
                "update_ms": (time.monotonic_ns() - started_ns) / 1e6,
            }
        if report.updates:  # otherwise the version on the board is still the newest
            with self.state(NodeState.PUBLISHING, f"publishing version {self._version}"):
                self._publish()
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
                digest=self._digest() if config.diagnostics.digests else "",
            )
        )

    def _rollout(self, ref: RolloutRef) -> ShardRollout:
        records, record = self._records[ref.shard], None
        while (data := records.try_pop()) is not None:
            record = RolloutRecord.unpack(data)
            # Of a node that died before it could say that the rollout was complete.
            if record.incarnation >= ref.incarnation:
                break
        published = record and (record.incarnation, record.slot, record.rollout_id)
        expected = (ref.incarnation, ref.slot, ref.rollout_id)
        if published != expected:
            raise SegmentError(
                f"told to train on rollout {expected} (incarnation, slot, id) of shard "
                f"{ref.shard}, but its env node published {published}; this is a fault in "
                "FastLoop, please report it"
            )
        return self._rollouts.view(ref)

    def _publish(self) -> None:
        self.context.memory.parameters.pack(self.algorithm.policy_parameters(), self._flat)
        self._weights.publish(self._version, self._flat.data)

    def _snapshot(self, request: int) -> None:
        with self.state(NodeState.PUBLISHING, f"taking a snapshot of version {self._version}"):
            self._evaluation.write(self._version, self._env_steps, self._flat.data)
        self.context.channel.send(
            SnapshotTaken(self.context.name, request, self._version, self._env_steps)
        )

    def _digest(self) -> str:
        return digest(self.algorithm.state_dict())

    # --- checkpoints ---------------------------------------------------------------------------

    def _save(self, directory: Path) -> None:
        save(
            directory / LEARNER_FILE,
            {
                "version": self._version,
                "env_steps": self._env_steps,
                "algorithm": self.algorithm.state_dict(),
            },
        )

    def _restore(self, directory: Path) -> None:
        state = load(directory / LEARNER_FILE)
        algorithm = state["algorithm"]
        if not isinstance(algorithm, dict):
            raise CheckpointError(f"{directory / LEARNER_FILE} holds no learner state")
        self.algorithm.load_state_dict(algorithm)
        self._version, self._env_steps = int(str(state["version"])), int(str(state["env_steps"]))

    def failure_context(self) -> dict[str, str]:
        """Version and env steps."""
        return {"version": str(self._version), "env_steps": str(self._env_steps)}
