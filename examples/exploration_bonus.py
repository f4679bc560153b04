"""A reward for what is new: `fastloop launch examples/exploration_bonus.yaml`.

`CountBonus` stands between the env nodes and the optimizer. It adds ``scale / sqrt(n)`` to the
reward of a step that led into a cell of the observation space for the n-th time (Bellemare et
al. 2016, arXiv:1606.01868, with a grid for counts). `NoveltyLog` writes down what it reports.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import TextIO

import numpy as np

from fast_core.algorithm import ShardRollout
from fast_core.messages import Command, Ready, UserMessage
from fast_core.nodes.node import Node
from fast_core.nodes.rollout_stage import RolloutStage


class Novelty(UserMessage, frozen=True):
    """What a rollout found.

    Attributes:
        shard: Its shard.
        cells: Cells visited so far in the whole run.
        bonus: Mean bonus of its rows.
    """

    shard: int
    cells: int
    bonus: float


class CountBonus(RolloutStage):
    """Adds the bonus to the rewards of each rollout, in place.

    Settings: ``cell``, the size of a cell in each dimension of an observation, and ``scale``.
    """

    emits = RolloutStage.emits | {Novelty}

    def prepare(self) -> None:
        """Read the settings."""
        settings = self.context.settings
        self._cell = np.asarray(settings.get("cell", 0.1), np.float64)
        self._scale = float(settings.get("scale", 0.1))
        self._visits: Counter[bytes] = Counter()

    def transform(self, rollout: ShardRollout) -> None:
        """Count where each step led to and reward it; row ``t + 1`` unless the episode ended."""
        ended = (rollout.terminated | rollout.truncated)[..., None]
        reached = np.where(ended, rollout.final_obs, rollout.obs[1:])
        cells = np.floor(reached / self._cell).astype(np.int64)
        bonus = np.zeros(rollout.reward.shape, np.float32)
        for index in np.ndindex(bonus.shape):
            cell = cells[index].tobytes()
            self._visits[cell] += 1
            bonus[index] = self._scale / math.sqrt(self._visits[cell])
        rollout.reward[...] += bonus
        message = Novelty(self.context.name, rollout.shard, len(self._visits), float(bonus.mean()))
        self.context.channel.send(message)
        self.log_figures({"cells": message.cells, "bonus": message.bonus})

    def state_dict(self) -> dict[str, object]:
        """The counts: without them a resumed run would find everything new again."""
        return {"cells": list(self._visits), "visits": list(self._visits.values())}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on from `state_dict`."""
        self._visits = Counter(dict(zip(state["cells"], state["visits"], strict=True)))


class NoveltyLog(Node):
    """Writes a line of ``novelty.csv`` for each `Novelty`."""

    consumes = frozenset({Novelty})
    emits = frozenset({Ready})
    finishes_inbox = True  # what came before the end is still written
    _file: TextIO | None = None

    def setup(self) -> None:
        """Open the file in the run directory."""
        path = Path(self.context.plan.run_directory) / "novelty.csv"
        self._file = path.open("a", encoding="utf-8")

    def handle(self, command: Command) -> None:
        """Write one line."""
        if isinstance(command, Novelty) and self._file is not None:
            self._file.write(f"{command.shard},{command.cells},{command.bonus:.4g}\n")

    def close(self) -> None:
        """Close the file; called after a failure too, also one of `setup`."""
        if self._file is not None:
            self._file.close()
