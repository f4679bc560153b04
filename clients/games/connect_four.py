"""Four in a row, with a player that looks some moves ahead; registers ``fastloop/ConnectFour-v0``.

A column has seven bits, the lowest cell first, of which the seventh is always empty: so that a line
never goes on from the top of a column at the bottom of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import gymnasium
import numpy as np

from fast_core.clients.games.board_game import BoardGame
from fast_core.clients.games.board_rules import Picture, Rules, disc, tile
from fast_core.clients.games.opponents import AtRandom, OnePly, Opponent, one_of
from fast_core.errors import ConfigError

ROWS, COLUMNS = 6, 7
MOST_DEPTH = 12
_BITS = ROWS + 1  # of a column
_STEPS = (1, _BITS, _BITS - 1, _BITS + 1)  # from a cell to the one above, beside, below, above it
_FLOOR = sum(1 << _BITS * column for column in range(COLUMNS))
_COLUMNS = tuple(((1 << ROWS) - 1) << _BITS * column for column in range(COLUMNS))
_ALL = sum(_COLUMNS)
_FROM_MIDDLE = (3, 2, 4, 1, 5, 0, 6)
_ORDER = tuple(_COLUMNS[column] for column in _FROM_MIDDLE)
_WIN = 1_000  # more than any guess
_BLUE, _HOLE, _EDGE = (35, 82, 170), (20, 44, 96), (28, 66, 140)
_RED, _YELLOW = (222, 62, 58), (250, 199, 28)


def _four_in_a_row() -> tuple[int, ...]:
    lines = (sum(1 << cell + n * step for n in range(4)) for step in _STEPS for cell in range(49))
    return tuple(line for line in lines if line & _ALL == line)


class ConnectFourRules(Rules):
    """Action ``n`` drops a stone into column ``n``; four in a line win."""

    name = "fastloop/ConnectFour-v0"
    places = _BITS * np.arange(COLUMNS) + np.arange(ROWS)[::-1, None]
    lines = _four_in_a_row()
    actions = COLUMNS
    marks = np.full((ROWS, COLUMNS), ".")
    below = (tuple(str(column + 1) for column in range(COLUMNS)),)

    def stone(self, taken: int, action: int) -> int:
        """See `Rules`."""
        return (taken + (1 << _BITS * action)) & _COLUMNS[action]

    def won(self, stones: int) -> bool:
        """See `Rules`."""
        for step in _STEPS:
            pairs = stones & stones >> step
            if pairs & pairs >> 2 * step:
                return True
        return False

    def tiles(self) -> Picture:
        """See `Rules`."""
        return _tiles()


RULES = ConnectFourRules()


@cache
def _tiles() -> Picture:
    ground = tile(_BLUE, (disc(28), _EDGE), (disc(26), _HOLE))
    stones = [
        tile(_BLUE, (disc(28), _EDGE), (disc(26), colour), (disc(19), light), (disc(17), colour))
        for colour, light in ((_RED, (238, 108, 102)), (_YELLOW, (255, 224, 120)))
    ]
    return np.stack([ground, *stones])


class AlphaBeta:
    """Looks ``depth`` moves ahead and takes the best, by a guess where nobody wins by then.

    It wins as soon as can be, and where it would lose, as late as can be. The guess is how many
    empty cells would complete a line of its own, less those that would complete one of the other
    player.
    """

    def __init__(self, depth: int) -> None:
        """Raises `ConfigError` where ``depth`` is not from 1 to `MOST_DEPTH`."""
        if type(depth) is not int or not 1 <= depth <= MOST_DEPTH:
            raise ConfigError(
                f"environment.kwargs.depth of {RULES.name} must be an integer from 1 to "
                f"{MOST_DEPTH}; got {depth!r}"
            )
        self._depth = depth

    def __call__(self, own: int, other: int, random: np.random.Generator) -> int:
        """See `Opponent`."""
        return one_of(best_actions(own, other, self._depth), random)


def best_actions(own: int, other: int, depth: int) -> list[int]:
    """The actions of the greatest value, as found ``depth`` moves ahead."""
    best, actions = -2 * _WIN, list[int]()
    for action in _FROM_MIDDLE:
        if stone := RULES.stone(own | other, action):
            if RULES.won(own | stone):
                found = _WIN + depth
            else:  # what is as good as the best is found exactly
                found = -value(other, own | stone, depth - 1, -2 * _WIN, 1 - best)
            if found > best:
                best, actions = found, []
            if found == best:
                actions.append(action)
    return actions


def value(own: int, other: int, depth: int, low: int = -2 * _WIN, high: int = 2 * _WIN) -> int:
    """What a position is worth to who moves, ``depth`` moves ahead.

    Exact between ``low`` and ``high``; beyond them a bound. A victory after ``n`` moves is worth
    ``depth - n`` more than one that takes all of them.
    """
    taken = own | other
    open_cells = (taken + _FLOOR) & _ALL
    if not open_cells:
        return 0
    if depth == 0:
        return _completing(own, taken).bit_count() - _completing(other, taken).bit_count()
    if _completing(own, taken) & open_cells:
        return _WIN + depth
    threats = _completing(other, taken) & open_cells
    if depth > 1 and threats:  # whatever is not prevented loses at once
        if threats & (threats - 1):
            return 1 - _WIN - depth
        open_cells = threats
    best = -2 * _WIN
    for column in _ORDER:
        if stone := open_cells & column:
            best = max(best, -value(other, own | stone, depth - 1, -high, -max(low, best)))
            if best >= high:
                break
    return best


def _completing(stones: int, taken: int) -> int:
    """The empty cells that would complete a line of ``stones``."""
    found = stones << 1 & stones << 2 & stones << 3
    for step in _STEPS[1:]:
        below = stones << step & stones << 2 * step
        above = stones >> step & stones >> 2 * step
        found |= below & (stones << 3 * step | stones >> step)
        found |= above & (stones >> 3 * step | stones << step)
    return found & (_ALL & ~taken)


class ConnectFour(BoardGame):
    """Four in a row on six rows and seven columns; see `BoardGame` for what is observed and gained.

    Action ``n`` from 0 to 6 drops a stone into column ``n``, where it lies on those that are there;
    four in a row, a column or a diagonal win.
    """

    rules = RULES

    def __init__(
        self,
        opponent: str | None = None,
        side: str = "both",
        depth: int = 4,
        opening: int = 0,
        render_mode: str | None = None,
    ) -> None:
        """Make a game.

        ``opponent`` may be ``random``, ``one_ply``, which wins if it can and prevents what it can,
        ``alpha_beta``, which looks ``depth`` moves ahead, or the path of a run or policy; for
        ``side`` and ``opening`` see `BoardGame`.

        Raises:
            FastLoopError: As `BoardGame`, or a depth is out of range.
        """
        opponents: dict[str, Callable[[], Opponent]] = {
            "random": lambda: AtRandom(RULES),
            "one_ply": lambda: OnePly(RULES),
            "alpha_beta": lambda: AlphaBeta(depth),
        }
        super().__init__(opponents, opponent, side, opening, render_mode)


gymnasium.register(RULES.name, f"{__name__}:ConnectFour")
