"""SAC whose steps are begun and finished apart, as on a device that takes its time."""

from __future__ import annotations

import os
import signal
from collections import deque
from pathlib import Path
from typing import Any

from fast_core.algorithm import ReplayBatch, UpdateReport
from fast_core.algos.replay.sac import SAC
from fast_core.algos.replay.sac_config import SACConfig

DIES_AT = 150  # updates


class LateConfig(SACConfig, frozen=True, kw_only=True):
    """SAC; its optimizer dies between a step's beginning and its end, unless ``once`` exists."""

    numpy_learner = "tests.process.late:LateSAC"
    once: str = ""


class LateSAC(SAC):
    """Steps are taken when they have been asked for often enough."""

    ahead = 2

    def __init__(self, settings: LateConfig, *arguments: Any) -> None:
        super().__init__(settings, *arguments)
        self._once, self._asked = Path(settings.once), 0
        self._waiting: deque[ReplayBatch] = deque()

    def begin(self, batch: ReplayBatch) -> None:
        self._waiting.append(batch)

    def finished(self) -> UpdateReport | None:
        self._asked += 1
        if self._asked % 4:
            return None
        if self.updates == DIES_AT and not self._once.exists():
            self._once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.update(self._waiting.popleft())
