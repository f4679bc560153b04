"""The board game Color Lines, small or whole; registers ``fastloop/ColorLines-v0``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from fast_core.errors import ConfigError

Observation = dict[str, Any]
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_CELL = 32  # pixels
_COLOURS = np.array(
    [
        [214, 69, 65],
        [66, 133, 244],
        [52, 168, 83],
        [251, 188, 5],
        [155, 89, 182],
        [26, 188, 156],
        [121, 85, 72],
    ],
    np.uint8,
)


class ColorLines(gymnasium.Env[Observation, np.int64]):
    """Balls of several colours lie on a square board; a line of one colour is taken off it.

    Action ``from * cells + to`` moves a ball to an empty cell that it can reach over empty ones,
    up, down, left and right. A line of ``line`` balls or more that it completes, in a row, a column
    or a diagonal, is taken off, for a reward of a ball each, and the player is on again. Otherwise,
    and when the board is empty, ``new`` balls fall on random empty cells, of the colours that were
    announced. The episode terminates when no ball can be moved.

    Observes a Dict: ``board`` ``[size, size, colours]``, one where a ball of that colour lies;
    ``next`` ``[new, colours]``, the colours announced; ``moves`` ``[cells * cells]``, a mask for
    ``environment.action_mask``.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self,
        size: int = 5,
        colours: int = 3,
        line: int = 3,
        new: int = 2,
        render_mode: str | None = None,
    ) -> None:
        """The game as it is known has ``size`` 9, ``colours`` 7, ``line`` 5 and ``new`` 3.

        Raises:
            ConfigError: A number is out of range.
        """
        ranges = {
            "size": (size, 3, 9),
            "colours": (colours, 1, len(_COLOURS)),
            "line": (line, 2, size),
            "new": (new, 1, size),
        }
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                raise ConfigError(
                    f"environment.kwargs.{name} of fastloop/ColorLines-v0 must be from {low} to "
                    f"{high}; got {value!r}"
                )
        self._size, self._colours, self._line, self._new = size, colours, line, new
        self._cells = size * size
        self.render_mode = render_mode
        self.action_space = Discrete(self._cells**2)
        self.observation_space = Dict(
            {
                "board": Box(0, 1, (size, size, colours), np.float32),
                "next": Box(0, 1, (new, colours), np.float32),
                "moves": Box(0, 1, (self._cells**2,), np.int8),
            }
        )
        self._board = np.zeros((size, size), np.int64)  # 0 where it is empty
        self._next = np.zeros(new, np.int64)
        self._allowed = np.zeros((self._cells, self._cells), np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin with an empty board on which the first balls fall."""
        super().reset(seed=seed)
        self._board[...] = 0
        self._announce()
        self._fall()
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move a ball; one that can't be moved so costs the turn."""
        origin, target = divmod(int(action), self._cells)
        reward = 0
        if self._allowed[origin, target]:
            board = self._board.reshape(-1)
            board[target], board[origin] = board[origin], 0
            reward = self._take([target])
        if not (reward and self._board.any()):
            self._fall()
        obs = self._observation()
        return obs, float(reward), not self._allowed.any(), False, {}

    def _announce(self) -> None:
        self._next[...] = self.np_random.integers(1, self._colours + 1, self._new)

    def _fall(self) -> None:
        """Put the announced balls on empty cells; lines that they complete count nothing."""
        empty = np.flatnonzero(self._board == 0)
        cells = self.np_random.permutation(empty)[: self._new]
        self._board.reshape(-1)[cells] = self._next[: len(cells)]
        self._take(cells.tolist())
        self._announce()

    def _take(self, cells: list[int]) -> int:
        """Take every line through one of ``cells`` off the board; returns the number of balls."""
        taken = {each for cell in cells for each in self._lines(cell)}
        self._board.reshape(-1)[list(taken)] = 0
        return len(taken)

    def _lines(self, cell: int) -> list[int]:
        """The cells of all lines through ``cell``."""
        found: list[int] = []
        for down, right in _DIRECTIONS:
            line = [cell, *self._like(cell, down, right), *self._like(cell, -down, -right)]
            found += line if len(line) >= self._line else []
        return found

    def _like(self, cell: int, down: int, right: int) -> list[int]:
        """The cells next to ``cell`` in one direction that have its colour."""
        row, column = divmod(cell, self._size)
        colour, found = self._board[row, column], list[int]()
        while True:
            row, column = row + down, column + right
            within = 0 <= row < self._size and 0 <= column < self._size
            if not (colour and within and self._board[row, column] == colour):
                return found
            found.append(row * self._size + column)

    def _moves(self) -> NDArray[np.bool_]:
        """Whether the ball at a cell can be moved to another, ``[cells, cells]``."""
        region = self._regions()
        moves = np.zeros((self._cells, self._cells), np.bool_)
        flat = region.reshape(-1)
        for origin in np.flatnonzero(self._board).tolist():
            row, column = divmod(origin, self._size)
            beside = {int(region[r, c]) for r, c in self._beside(row, column)} - {0}
            moves[origin] = np.isin(flat, list(beside)) if beside else False
        return moves

    def _regions(self) -> NDArray[np.int64]:
        """A number for each region of empty cells, 0 where balls lie, ``[size, size]``."""
        region = np.zeros_like(self._board)
        for number, start in enumerate(np.flatnonzero(self._board == 0).tolist(), start=1):
            waiting = [divmod(start, self._size)]
            while waiting:
                row, column = waiting.pop()
                if not (self._board[row, column] or region[row, column]):
                    region[row, column] = number
                    waiting += self._beside(row, column)
        return region

    def _beside(self, row: int, column: int) -> list[tuple[int, int]]:
        near = ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1))
        return [(r, c) for r, c in near if 0 <= r < self._size and 0 <= c < self._size]

    def _observation(self) -> Observation:
        self._allowed = self._moves()
        eye = np.eye(self._colours + 1, dtype=np.float32)[:, 1:]
        return {
            "board": eye[self._board],
            "next": eye[self._next],
            "moves": self._allowed.reshape(-1).astype(np.int8),
        }

    def render(self) -> Any:
        """The board, with a disc for each ball."""
        middle = np.arange(_CELL) - (_CELL - 1) / 2
        disc = np.hypot(middle[:, None], middle) < 0.4 * _CELL
        edge = np.zeros((_CELL, _CELL), np.bool_)
        edge[0] = edge[:, 0] = True
        picture = np.full((self._size * _CELL, self._size * _CELL, 3), 235, np.uint8)
        for (row, column), ball in np.ndenumerate(self._board):
            rows, columns = (slice(n * _CELL, (n + 1) * _CELL) for n in (row, column))
            picture[rows, columns][edge] = 190
            if ball:
                picture[rows, columns][disc] = _COLOURS[ball - 1]
        return picture


gymnasium.register("fastloop/ColorLines-v0", f"{__name__}:ColorLines")
