"""Shared memory of one's own: `fastloop launch examples/trajectory_log.yaml`.

`Recorder` writes every rollout into a ring in the run's memory, and `TrajectoryLog`, another
process, appends what it finds there to ``trajectories.bin``. Training waits for neither: where the
ring is full, a rollout is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fast_core.algorithm import ShardRollout
from fast_core.memory import Ring, Structure
from fast_core.messages import Command, Ready
from fast_core.nodes.node import Node
from fast_core.nodes.rollout_stage import RolloutStage
from fast_core.run.plan import RunPlan


def record(plan: RunPlan) -> np.dtype:
    """One rollout in the ring and in the file, which `numpy.fromfile` reads."""
    steps, envs, row = plan.config.steps, plan.config.rollout.envs_per_shard, plan.environment.row
    return np.dtype(
        [
            ("shard", np.int64),
            ("rollout", np.int64),
            ("obs", row.dtype, (steps + 1, envs, *row.shape)),
            ("reward", np.float32, (steps, envs)),
        ]
    )


class Recorder(RolloutStage):
    """Copies rollouts into its ring.

    Settings: ``places``, how many rollouts the ring holds.
    """

    writes = RolloutStage.writes | {"trajectories"}

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        """The ring."""
        places = plan.settings_of(name).get("places", 16)
        yield Structure("trajectories", Ring, (places, record(plan).itemsize))

    def prepare(self) -> None:
        """Attach to the ring, and to the doorbell of who reads it."""
        memory = self.context.memory
        self._ring = memory.at(Ring, "trajectories")
        self._reader = memory.doorbell("trajectorylog")
        self._record = record(self.context.plan)
        self._left_out = 0

    def transform(self, rollout: ShardRollout) -> None:
        """Write in place, then publish; a reader sees nothing of it before."""
        place = self._ring.try_claim()
        if place is None:
            self._left_out += 1
            return
        row = np.ndarray((), self._record, place)
        row["shard"], row["rollout"] = rollout.shard, rollout.rollout_id
        row["obs"], row["reward"] = rollout.obs, rollout.reward
        self._ring.commit()
        self._reader.ring()

    def close(self) -> None:
        """Say what is not in the file."""
        if getattr(self, "_left_out", 0):
            self.context.log.warning("%d rollouts found the ring full", self._left_out)


class TrajectoryLog(Node):
    """Appends what is in the ring to ``trajectories.bin`` in the run directory."""

    emits = frozenset({Ready})
    reads = frozenset({"trajectories"})
    _file: BinaryIO | None = None

    def setup(self) -> None:
        """Attach to the ring and open the file."""
        self._ring = self.context.memory.at(Ring, "trajectories")
        self._file = (Path(self.context.plan.run_directory) / "trajectories.bin").open("ab")

    def handle(self, command: Command) -> None:
        """Nothing comes: it consumes no message."""

    def work(self) -> bool:
        """Take one rollout, if there is any; without, the node sleeps until its doorbell rings."""
        row = self._ring.try_pop()
        if row is not None and self._file is not None:
            self._file.write(row)
        return row is not None

    def close(self) -> None:
        """Take what is left, also of a writer that was killed: all that it had published."""
        if self._file is not None:
            while self.work():
                pass
            self._file.close()
