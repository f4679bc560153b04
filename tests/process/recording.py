"""A node of the user's that is killed while it writes into memory of its own."""

from __future__ import annotations

import os
import signal

import numpy as np

from examples.trajectory_log import Recorder
from fast_core.algorithm import ShardRollout

WHOLE = 4


class Dying(Recorder):
    """Publishes `WHOLE` rollouts and is killed with the next one half written."""

    def transform(self, rollout: ShardRollout) -> None:
        self._seen = getattr(self, "_seen", 0) + 1
        if self._seen > WHOLE:
            place = self._ring.try_claim()
            np.frombuffer(place, np.uint8)[:64] = 0xFF
            os.kill(os.getpid(), signal.SIGKILL)
        super().transform(rollout)
