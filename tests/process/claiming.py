"""An environment that claims a file of its own while it lives, as a simulator does a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Claims(gymnasium.Env[Any, Any]):
    """Fails if another one that lives has its number; float64 where float32 is declared."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Box(0, 2, (2,), np.int64)

    def __init__(self, folder: str, port: int) -> None:
        self._claim = Path(folder) / str(port)
        self._claim.touch(exist_ok=False)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._t = 0
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        self._t += 1
        return np.full(2, self._t / 8), float(action[0]), self._t == 8, False, {}

    def close(self) -> None:
        self._claim.unlink()
