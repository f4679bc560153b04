"""A task that only memory can solve; importing this module registers ``fastloop/Recall-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError

F32 = NDArray[np.float32]
Obs = tuple[F32, dict[str, Any]]


class RecallTask(gymnasium.Env[F32, np.int64]):
    """Shows one of ``cues`` in the first observation and asks for it after ``delay`` blank ones.

    An observation ``[cues + 1]`` is the cue one-hot, then 1 where the answer is due. The action
    taken there ends the episode with reward 1 if it names the cue, 0 if not; all others are
    ignored. A policy that sees only the present observation gets ``1 / cues`` on average.
    """

    def __init__(self, cues: int = 2, delay: int = 6) -> None:
        """An episode has ``delay + 2`` steps.

        Raises:
            ConfigError: Fewer than two cues, or a negative delay.
        """
        if cues < 2 or delay < 0:
            raise ConfigError(
                "environment.kwargs of fastloop/Recall-v0 needs cues of at least 2 and a delay "
                f"of at least 0; got cues={cues!r}, delay={delay!r}."
            )
        self.observation_space = Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = Discrete(cues)
        self._cues, self._due = cues, delay + 1
        self._cue = self._step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Obs:
        """Draw a cue and show it."""
        super().reset(seed=seed)
        self._cue, self._step = int(self.np_random.integers(self._cues)), 0
        obs = np.zeros(self._cues + 1, np.float32)
        obs[self._cue] = 1.0
        return obs, {}

    def step(self, action: np.int64) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """Go on; the answer is due ``delay + 1`` steps after the cue."""
        ends = self._step == self._due
        self._step += 1
        obs = np.zeros(self._cues + 1, np.float32)
        obs[-1] = self._step == self._due
        reward = float(ends and int(action) == self._cue)
        return obs, reward, ends, False, {}


gymnasium.register("fastloop/Recall-v0", f"{__name__}:RecallTask")
