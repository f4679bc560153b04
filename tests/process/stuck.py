"""A stage that does not return, in C and without the interpreter lock, so its node seems well."""

from __future__ import annotations

import ctypes

from fast_core.algorithm import ShardRollout
from fast_core.nodes.rollout_stage import RolloutStage


class Stuck(RolloutStage):
    """Stands still in its third rollout."""

    _taken = 0

    def transform(self, rollout: ShardRollout) -> None:
        self._taken += 1
        if self._taken == 3:
            ctypes.CDLL(None).sleep(3600)
