"""What every optimizer does: owns a learner, publishes it, lends it out, saves and restores it."""

from __future__ import annotations

import time
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fast_core.algorithm import Algorithm, Beginning, Changeable, UpdateReport
from fast_core.config import Values
from fast_core.config.changes import with_changes
from fast_core.errors import CheckpointError, ConfigError
from fast_core.messages import (
    Change,
    Changed,
    Ready,
    Save,
    Saved,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.monitor.checkpoint_files import LEARNER_FILE
from fast_core.nodes.learn.contract import make_learner
from fast_core.nodes.learn.devices import check_device
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.insights import InsightBoards
from fast_core.nodes.node import Node, NodeContext, NodeState
from fast_core.policy.beginning import FirstValues, differing, other_shapes, read_start
from fast_core.run.structures import INSIGHTS
from fast_core.run.watching import WATCHING
from fast_core.system.durable import write_durably
from fast_core.system.state_file import MADE_UP, check, load, pack, unpack
from fast_core.system.text import error_text
from fast_core.system.threads import set_threads


class LearningNode(Node):
    """A node with a learner.

    Attributes:
        checksum: See `fast_core.messages.Trained`.

    Concurrency: the first optimizer is the only writer of the weight board, of the evaluation
    slot and of the boards for insights.
    """

    consumes = frozenset({Train, Snapshot, Change, Save})
    emits = frozenset({Ready, Trained, SnapshotTaken, Changed, Saved})
    reads = frozenset({WATCHING})
    writes = frozenset({"weights", "evaluation", INSIGHTS})

    def __init__(self, context: NodeContext) -> None:
        """Attach memory; the learner is built in `setup`, because it may import torch."""
        super().__init__(context)
        self._weights = context.memory.weights()
        self._flat = context.memory.parameters.empty()
        self._algorithm: Algorithm | None = None
        self._version = self._published = self._env_steps = 0
        self._insights: InsightBoards | None = None
        self._changed = False  # whether the learner has other settings than the plan's
        self.checksum = 0

    def setup(self) -> None:
        """Build the learner and restore it."""
        plan = self.context.plan
        optimizer = plan.config.nodes.optimizer
        if optimizer.device != "cpu":
            check_device(optimizer.device, "nodes.optimizer.device")
        set_threads(self.threads)
        self._algorithm = make_learner(plan, self.context.rank)
        set_threads(self.threads)  # again, for what building it has loaded, such as torch
        if plan.saves:
            check(self._algorithm.state_dict())
        self._insights = InsightBoards.of(self.context, self._algorithm)

    @property
    def algorithm(self) -> Algorithm:
        """The learner.

        Raises:
            RuntimeError: Before `setup`.
        """
        if self._algorithm is None:
            raise RuntimeError("the learner is built in setup(), which has not run")
        return self._algorithm

    @property
    def learner_file(self) -> str:
        """Name of its file in a checkpoint."""
        key = self.context.plan.key
        return f"learner-{key}.msgpack" if key else LEARNER_FILE

    def begin(self) -> None:
        """Take what the run begins with in place of first values, if that is anything.

        Raises:
            ConfigError: It is of other spaces or another network, or the learner can't.
            CheckpointError: It can't be read.
        """
        plan = self.context.plan
        if plan.config.policy.loaded is None:
            return
        start, _ = read_start(plan.config.policy.loaded)
        settings, learner = plan.config.algorithm, self.algorithm
        if not isinstance(learner, Beginning):
            raise ConfigError(
                f"policy.from: the learner of algorithm.name {settings.name!r} lacks begin_from "
                "and begin_with, which fast_core.algorithm.Beginning describes."
            )
        state: Any = None
        if start.learner:
            state = unpack(start.learner, start.source).get("algorithm")
            self._check_networks(start, state, learner.state_dict())
        try:
            if start.learner:
                learner.begin_from(state)
            else:
                named = {each.name: each.array for each in start.parameters}
                fields = settings.policy_fields(plan.environment)
                learner.begin_with([named[field.name] for field in fields], start.env_steps)
        except CheckpointError as error:
            raise ConfigError(differing(start, str(error).rstrip("."))) from error
        except MADE_UP as error:
            raise ConfigError(
                f"policy.from: what {start.source!r} holds is none of algorithm.name "
                f"{settings.name!r} ({error_text(error)})"
            ) from error

    @staticmethod
    def _check_networks(start: FirstValues, there: Any, here: Any) -> None:
        """Name the parameters that differ, of learners that give theirs by name."""
        if not isinstance(there, dict):
            raise CheckpointError(f"{start.source} holds no learner state")
        networks: list[Any] = [each.get("parameters") for each in (there, here)]
        if all(isinstance(each, dict) for each in networks):
            shapes = [{name: np.shape(a) for name, a in each.items()} for each in networks]
            if said := other_shapes(*shapes):
                raise ConfigError(differing(start, said))

    def answer(self, train: Train, report: UpdateReport, acted: tuple[float, int]) -> None:
        """Publish what the steps of a ticket came to, and say so.

        Args:
            train: The ticket.
            report: Of all of its steps, which the version counts already.
            acted: Mean and oldest version that acted in its rollouts. The lag is that of
                collection: what is drawn from a replay is as old as the replay.
        """
        config, (mean, oldest) = self.context.plan.config, acted
        self._env_steps = train.env_steps + config.rows_per_ticket
        publish_s = 0.0
        if report.updates:  # otherwise the version on the board is still the newest
            with self.state(NodeState.PUBLISHING, f"publishing version {self._version}"):
                publish_s = self.publish()
        before, last = self._version - report.updates, max(0, report.updates - 1)
        self.context.channel.send(
            Trained(
                node=self.context.name,
                ticket=train.ticket,
                version=self._version,
                updates=report.updates,
                skipped=report.skipped,
                lag_mean=before - mean + last / 2,
                lag_max=before - oldest + last,
                metrics=report.metrics,
                digest=self.digest() if config.diagnostics.digests else "",
                publish_s=publish_s,
                checksum=self.checksum,
            )
        )

    # --- the policy ----------------------------------------------------------------------------

    def publish(self) -> float:
        """Give the current policy to those who act; returns the seconds that it took."""
        started_ns = time.monotonic_ns()
        self.context.memory.parameters.pack(self.algorithm.policy_parameters(), self._flat)
        if self.context.plan.config.diagnostics.schedule:
            self.checksum = zlib.crc32(self._flat.data)
        self._weights.publish(self._version, self._flat.data)
        self._published = self._version
        return (time.monotonic_ns() - started_ns) / 1e9

    def show(self) -> None:
        """Give out what insights need, if somebody looks and it is time to; `work` calls it."""
        if self._insights is not None:
            self._insights.offer(self._version)

    def snapshot(self, request: int) -> None:
        """Give the policy that was published last to the evaluator."""
        version = self._published
        with self.state(NodeState.PUBLISHING, f"taking a snapshot of version {version}"):
            slot = self.context.memory.evaluation()
            slot.write(version, self._env_steps, self._flat.data)
        self.context.channel.send(
            SnapshotTaken(self.context.name, request, version, self._env_steps)
        )

    # --- changes -------------------------------------------------------------------------------

    def change(self, command: Change) -> None:
        """Let the learner go on with other settings, and say so."""
        with self.state(NodeState.LEARNING, "changing settings"):
            self.use(command.values)
        self.context.channel.send(Changed(self.context.name, command.number))

    def use(self, values: Values) -> None:
        """Let the learner go on with settings of which ``values`` are not the configuration's.

        Raises:
            ConfigError: It can't.
        """
        settings = self.context.plan.config.algorithm
        changed = with_changes(settings, values)
        if changed != settings or self._changed:
            if not isinstance(self.algorithm, Changeable):
                raise ConfigError(
                    f"algorithm.name {settings.name!r} lets {', '.join(settings.changeable)} be "
                    "changed, but its learner lacks the method change(settings). Write it, or set "
                    "changeable = () in its configuration type."
                )
            self._changed = True
            self.algorithm.change(changed)

    # --- checkpoints ---------------------------------------------------------------------------

    def save(self, checkpoint: int, directory: Path) -> None:
        """Write the learner's file and say so."""
        with self.state(NodeState.SAVING, f"saving checkpoint {checkpoint}"):
            data = pack(self.saved_state())
        with self.state(NodeState.WRITING, f"writing checkpoint {checkpoint}"):
            write_durably(directory / self.learner_file, data)
        self.context.channel.send(Saved(self.context.name, checkpoint, (self.learner_file,)))

    def saved_state(self) -> dict[str, object]:
        """What the learner's file holds."""
        return {
            "version": self._version,
            "env_steps": self._env_steps,
            "algorithm": self.algorithm.state_dict(),
            "environment": msgspec.to_builtins(self.context.plan.environment),
        }

    def restore(self, path: Path) -> dict[str, object]:
        """Continue from the learner's file at ``path``; returns what it holds.

        Raises:
            CheckpointError: It is none, or that of another algorithm or network.
        """
        state = load(path)
        algorithm = state["algorithm"]
        if not isinstance(algorithm, dict):
            raise CheckpointError(f"{path} holds no learner state")
        self.algorithm.load_state_dict(algorithm)
        self._version, self._env_steps = int(str(state["version"])), int(str(state["env_steps"]))
        return state

    def digest(self) -> str:
        """SHA-256 of everything in the learner that changes."""
        return digest(self.algorithm.state_dict())

    def failure_context(self) -> dict[str, str]:
        """Version and env steps."""
        return {"version": str(self._version), "env_steps": str(self._env_steps)}
