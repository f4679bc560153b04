"""DQN of which every replica but the first flips one bit after some steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import Algorithm, LearnerSetup, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.dqn import DQN
from fast_core.algos.replay.dqn_config import DQNConfig

HEALTHY_STEPS = 40


class DriftingConfig(DQNConfig, frozen=True, kw_only=True):
    """Learns as DQN does."""

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return DriftingDQN(self, environment, setup)


class DriftingDQN(DQN):
    """As memory without error correction may."""

    _replica = 0

    def reseed(self, replica: int) -> None:
        super().reseed(replica)
        self._replica = replica

    def apply(self, gradient: NDArray[np.float32], *, scale: float = 1.0) -> UpdateReport:
        report = super().apply(gradient, scale=scale)
        if self._replica and self.updates == HEALTHY_STEPS:
            self._vectors.parameters()[:1].view(np.uint32)[0] ^= 1
        return report
