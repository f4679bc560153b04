"""DQN whose priorities are wrong: NaN, infinite or negative for some rows of every batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fast_core.algorithm import Algorithm, LearnerSetup, ReplayBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.algos.replay.dqn import DQN
from fast_core.algos.replay.dqn_config import DQNConfig

WRONG = (np.nan, np.inf, -1.0)


class BadConfig(DQNConfig, frozen=True, kw_only=True):
    """Learns as DQN does."""

    def make_algorithm(self, environment: EnvironmentSpec, setup: LearnerSetup) -> Algorithm:
        return BadDQN(self, environment, setup)


class BadDQN(DQN):
    """The first rows of each batch get what no priority can be."""

    def update(self, batch: ReplayBatch) -> UpdateReport:
        report = super().update(batch)
        priority = np.array(report.priority, np.float32)
        priority[: len(WRONG)] = WRONG
        return replace(report, priority=priority)
