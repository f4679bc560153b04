"""Noughts and crosses, with a perfect player; registers ``fastloop/TicTacToe-v0``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import gymnasium
import numpy as np

from fast_core.clients.games.board_game import BoardGame
from fast_core.clients.games.board_rules import Picture, Rules, disc, from_middle, tile
from fast_core.clients.games.opponents import AtRandom, OnePly, Opponent, one_of

_ROWS = (0b000000111, 0b000111000, 0b111000000)
_COLUMNS = (0b001001001, 0b010010010, 0b100100100)
_DIAGONALS = (0b100010001, 0b001010100)
_PAPER, _RULE = (245, 243, 238), (205, 200, 190)
_CROSS, _NOUGHT = (214, 69, 65), (66, 133, 244)


class TicTacToeRules(Rules):
    """Action ``n`` takes cell ``n``, counted row by row; three in a line win."""

    name = "fastloop/TicTacToe-v0"
    places = np.arange(9).reshape(3, 3)
    lines = (*_ROWS, *_COLUMNS, *_DIAGONALS)
    actions = 9
    marks = np.arange(1, 10).astype(np.str_).reshape(3, 3)

    def stone(self, taken: int, action: int) -> int:
        """See `Rules`."""
        return (1 << action) & ~taken

    def won(self, stones: int) -> bool:
        """See `Rules`."""
        return _WON[stones]

    def tiles(self) -> Picture:
        """See `Rules`."""
        return _tiles()


_WON = [any(line & stones == line for line in TicTacToeRules.lines) for stones in range(1 << 9)]
RULES = TicTacToeRules()


@cache
def _tiles() -> Picture:
    down, right = from_middle()
    half = down[-1, 0]
    empty = tile(_PAPER, (np.maximum(abs(down), abs(right)) - half + 1, _RULE))
    from_diagonal = np.minimum(abs(down - right), abs(down + right)) / np.sqrt(2)
    cross = np.minimum(4.5 - from_diagonal, disc(24))
    nought = np.minimum(disc(22), 1 - disc(14))
    return np.stack([empty, tile(empty, (cross, _CROSS)), tile(empty, (nought, _NOUGHT))])


class Perfect:
    """Never loses: wins as soon as can be, and where it would lose, as late as can be."""

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """See `Opponent`."""
        return one_of(best_actions(own, other), random)


@cache
def best_actions(own: int, other: int) -> tuple[int, ...]:
    """The actions of the greatest value."""
    values = {action: -value(other, own | 1 << action) for action in RULES.allowed(own | other)}
    best = max(values.values())
    return tuple(action for action, found in values.items() if found == best)


@cache
def value(own: int, other: int) -> int:
    """What a position is worth to who moves: 0 where it will be a draw.

    Otherwise one more than the cells that stay empty, negative where the other player wins.
    """
    taken = own | other
    if _WON[other]:
        return -1 - (9 - taken.bit_count())
    moves = RULES.allowed(taken)
    return max((-value(other, own | 1 << action) for action in moves), default=0)


class TicTacToe(BoardGame):
    """Noughts and crosses on nine cells; see `BoardGame` for what is observed and gained.

    Action ``n`` from 0 to 8 takes cell ``n``, counted row by row; three in a row, a column or a
    diagonal win.
    """

    rules = RULES

    def __init__(
        self,
        opponent: str | None = None,
        side: str = "both",
        opening: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """Make a game.

        ``opponent`` may be ``random``, ``one_ply``, which wins if it can and prevents what it can,
        ``perfect``, or the path of a run or policy; for ``side`` and ``opening``
        see `BoardGame`.

        Raises:
            FastLoopError: As `BoardGame`.
        """
        opponents: dict[str, Callable[[], Opponent]] = {
            "random": lambda: AtRandom(RULES),
            "one_ply": lambda: OnePly(RULES),
            "perfect": Perfect,
        }
        super().__init__(opponents, opponent, side, opening, render_mode)


gymnasium.register(RULES.name, f"{__name__}:TicTacToe")
