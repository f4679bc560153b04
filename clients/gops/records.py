"""What a GOPS run leaves: saved networks and the figures of TensorBoard, as GOPS's trainers do."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.tensorboard import SummaryWriter

from fast_core.clients.gops.evaluation import Evaluated
from fast_core.clients.gops.weights import Gops


class Records:
    """Files in the folder of a run; used by one thread at a time.

    Attributes:
        writer: Of the figures.
    """

    def __init__(self, folder: str, tags: Mapping[str, str], averages: Gops) -> None:
        """Write below ``folder``, with GOPS's names of figures; ``averages`` is its `LogData`."""
        self.writer = SummaryWriter(log_dir=folder, flush_secs=20)
        self._apprfunc = Path(folder, "apprfunc")
        self._tags, self._averages = tags, averages
        self._best = -math.inf
        self._began_s = time.monotonic()
        self._write({tags["alg_time"]: 0, tags["sampler_time"]: 0}, 0)
        self.writer.flush()

    def begin(self) -> None:
        """Count the time of a run from here."""
        self._began_s = time.monotonic()

    def sampled(self, figures: Sequence[Mapping[str, float]]) -> None:
        """Average a round's figures in until they are written."""
        for each in figures:
            self._averages.add_average(dict(each))

    def figures(self, iteration: int, told: Mapping[str, Any]) -> None:
        """Write what an update told, and what samplers told since."""
        print("Iter = ", iteration)
        self._write(told, iteration)
        self._write(self._averages.pop(), iteration)

    def networks(self, iteration: int, networks: Gops) -> None:
        """Save them."""
        torch.save(networks.state_dict(), self._apprfunc / f"apprfunc_{iteration}.pkl")

    def evaluated(
        self, one: Evaluated, *, batch_size: int | None, memory_mb: float | None, keeps_best: bool
    ) -> None:
        """Write a score at the iteration that it is about, and keep the weights that have the best.

        Args:
            one: What was evaluated.
            batch_size: Of a replayed batch, None without replay.
            memory_mb: What buffers take, likewise.
            keeps_best: Whether the run is old enough for a best.
        """
        score, tags = one.score, self._tags
        assert score is not None
        if score >= self._best and keeps_best:
            self._best = score
            print(f"Best return = {score}!")
            for path in self._apprfunc.glob("*_opt.pkl"):
                path.unlink()
            torch.save(one.state, self._apprfunc / f"apprfunc_{one.iteration}_opt.pkl")
        if memory_mb is not None and batch_size is not None:
            self._write({tags["Buffer RAM of RL iteration"]: memory_mb}, one.iteration)
            replayed = one.iteration * batch_size
            self._write({tags["TAR of replay samples"]: score}, replayed)
        self._write({tags["TAR of RL iteration"]: score}, one.iteration)
        self._write({tags["TAR of total time"]: score}, int(time.monotonic() - self._began_s))
        self._write({tags["TAR of collected samples"]: score}, one.env_steps)

    def _write(self, figures: Mapping[str, Any], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
