"""DQN that fails in its 30th update: each time, or the first time that anybody comes there."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Literal

from fast_core.algorithm import Algorithm, LearnerSetup, ReplayBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.dqn import DQN
from fast_core.algos.replay.dqn_config import DQNConfig

FAILS_AT = 30


class FailingConfig(DQNConfig, frozen=True, kw_only=True):
    """What happens, and the file that says that it has; without one it happens each time."""

    fault: Literal["raise", "hang", "kill"] = "kill"
    once: str = ""

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return FailingDQN(self, environment, setup, self.fault, self.once)


class FailingDQN(DQN):
    def __init__(
        self,
        config: DQNConfig,
        environment: EnvironmentSpec,
        setup: LearnerSetup,
        fault: str,
        once: str,
    ) -> None:
        super().__init__(config, environment, setup)
        self._fault, self._once = fault, once

    def update(self, batch: ReplayBatch) -> UpdateReport:
        if self.updates == FAILS_AT and not (self._once and Path(self._once).exists()):
            if self._once:
                Path(self._once).touch()
            if self._fault == "raise":
                raise ValueError("the loss is a fish")
            if self._fault == "hang":
                ctypes.CDLL(None).sleep(3600)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(batch)
