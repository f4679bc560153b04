"""A task seen as pixels that only stacked frames can solve; registers ``fastloop/Drift-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError

U8 = NDArray[np.uint8]
_CELLS = 12
_LEAST_SIDE = 36  # what the Nature CNN can see


class DriftTask(gymnasium.Env[U8, np.int64]):
    """A ball drifts through a picture; the action must name its last move.

    An observation is a grey picture ``[side, side]`` uint8 with a ball on a grid of 12 by 12
    cells, which moves one cell to the left, not at all, or to the right each step, at random, and
    comes back on the other side. Action 0, 1 or 2 names the move that led to this picture, for a
    reward of ``1 / steps``, so a perfect return is 1. The first picture of an episode shows no
    move: 1 is right there. A policy that sees only one picture can't know: 1/3 is what it gets.
    """

    def __init__(self, side: int = _LEAST_SIDE, steps: int = 16) -> None:
        """``side`` pixels, a multiple of 12; an episode has ``steps`` steps.

        Raises:
            ConfigError: Another side, or fewer than one step.
        """
        if side < _CELLS or side % _CELLS or steps < 1:
            raise ConfigError(
                f"environment.kwargs of fastloop/Drift-v0 needs a side that is a multiple of "
                f"{_CELLS} and steps of at least 1; got side={side!r}, steps={steps!r}."
            )
        self.observation_space = Box(0, 255, (side, side), np.uint8)
        self.action_space = Discrete(3)
        self._cell, self._steps = side // _CELLS, steps
        self._row = self._column = self._step = 0
        self._move = 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Obs:
        """Put the ball somewhere."""
        super().reset(seed=seed)
        self._row, self._column = self.np_random.integers(_CELLS, size=2).tolist()
        self._move, self._step = 1, 0
        return self._picture(), {}

    def step(self, action: np.int64) -> tuple[U8, float, bool, bool, dict[str, Any]]:
        """Judge the answer, then move the ball."""
        reward = float(int(action) == self._move) / self._steps
        self._move = int(self.np_random.integers(3))
        self._column = (self._column + self._move - 1) % _CELLS
        self._step += 1
        return self._picture(), reward, self._step == self._steps, False, {}

    def _picture(self) -> U8:
        cells = np.zeros((_CELLS, _CELLS), np.uint8)
        cells[self._row, self._column] = 255
        return cells.repeat(self._cell, axis=0).repeat(self._cell, axis=1)


Obs = tuple[U8, dict[str, Any]]
gymnasium.register("fastloop/Drift-v0", f"{__name__}:DriftTask")
