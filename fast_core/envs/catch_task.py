"""A task seen as pixels that is learned in seconds; registers ``fastloop/Catch-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError

U8 = NDArray[np.uint8]
Obs = tuple[U8, dict[str, Any]]
_CELLS = 14
_PADDLE = 1  # cells on each side of its middle


class CatchTask(gymnasium.Env[U8, np.int64]):
    """A ball falls through a picture and drifts aside; a paddle at the bottom must be under it.

    An observation is a grey picture ``[14 cell, 14 cell]`` uint8 with the ball and a paddle three
    cells wide. Actions move the paddle one cell to the left, not at all, or to the right. The
    ball drifts by -1, 0 or 1 cells a step and bounces off the sides; which, a single picture does
    not show. The episode ends after 13 steps, with reward 1 if the ball was caught, 0 if not.
    """

    def __init__(self, cell: int = 3) -> None:
        """``cell`` is the size of a cell in pixels.

        Raises:
            ConfigError: It is below 1.
        """
        if cell < 1:
            raise ConfigError(
                "environment.kwargs of fastloop/Catch-v0 needs a cell of at least 1 pixel; "
                f"got cell={cell!r}."
            )
        side = _CELLS * cell
        self.observation_space = Box(0, 255, (side, side), np.uint8)
        self.action_space = Discrete(3)
        self._cell = cell
        self._ball = self._drift = self._row = 0
        self._paddle = _CELLS // 2

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Obs:
        """Drop a ball somewhere, the paddle being anywhere."""
        super().reset(seed=seed)
        self._ball = int(self.np_random.integers(_CELLS))
        self._drift = int(self.np_random.integers(-1, 2))
        self._paddle = int(self.np_random.integers(_PADDLE, _CELLS - _PADDLE))
        self._row = 0
        return self._picture(), {}

    def step(self, action: np.int64) -> tuple[U8, float, bool, bool, dict[str, Any]]:
        """Move the paddle, then let the ball fall by one cell."""
        moved = self._paddle + int(action) - 1
        self._paddle = min(max(moved, _PADDLE), _CELLS - 1 - _PADDLE)
        if not 0 <= self._ball + self._drift < _CELLS:
            self._drift = -self._drift
        self._ball += self._drift
        self._row += 1
        ends = self._row == _CELLS - 1
        caught = ends and abs(self._ball - self._paddle) <= _PADDLE
        return self._picture(), float(caught), ends, False, {}

    def _picture(self) -> U8:
        cells = np.zeros((_CELLS, _CELLS), np.uint8)
        cells[-1, self._paddle - _PADDLE : self._paddle + _PADDLE + 1] = 128
        cells[self._row, self._ball] = 255
        return cells.repeat(self._cell, axis=0).repeat(self._cell, axis=1)


gymnasium.register("fastloop/Catch-v0", f"{__name__}:CatchTask")
