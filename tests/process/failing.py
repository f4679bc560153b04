"""DQN with a fault of its own, as `FailingConfig.fault` says."""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Algorithm, LearnerSetup, ReplayBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.dqn import DQN
from fast_core.algos.replay.dqn_config import DQNConfig

FAILS_AT, DRIFTS_AT = 30, 40  # updates
WRONG = (np.nan, np.inf, -1.0)


class FailingConfig(DQNConfig, frozen=True, kw_only=True):
    """What is wrong.

    The first three happen in an update: each time, or with a file that says that it has, the
    first time that anybody comes there. ``drift`` flips a bit in every replica but the first, as
    memory without error correction may; ``priorities`` are such as can't be, in every batch.
    """

    fault: Literal["raise", "hang", "kill", "drift", "priorities"] = "kill"
    once: str = ""

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return FailingDQN(self, environment, setup)


class FailingDQN(DQN):
    _replica = 0

    def __init__(
        self, config: FailingConfig, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        super().__init__(config, environment, setup)
        self._fault, self._once = config.fault, config.once

    def reseed(self, replica: int) -> None:
        super().reseed(replica)
        self._replica = replica

    def update(self, batch: ReplayBatch) -> UpdateReport:
        if self.updates == FAILS_AT and not (self._once and Path(self._once).exists()):
            if self._once:
                Path(self._once).touch()
            match self._fault:
                case "raise":
                    raise ValueError("the loss is a fish")
                case "hang":
                    ctypes.CDLL(None).sleep(3600)
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
        report = super().update(batch)
        if self._fault == "priorities":
            priority = np.array(report.priority, np.float32)
            priority[: len(WRONG)] = WRONG
            report = replace(report, priority=priority)
        return report

    def apply(self, gradient: NDArray[np.float32], *, scale: float = 1.0) -> UpdateReport:
        report = super().apply(gradient, scale=scale)
        if self._fault == "drift" and self._replica and self.updates == DRIFTS_AT:
            self._vectors.parameters()[:1].view(np.uint32)[0] ^= 1
        return report
