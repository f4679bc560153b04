"""Games of two players who put stones on a board in turn, each seen by whoever moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from fast_core.clients.games.board_rules import CELL, Observation, Picture, Rules
from fast_core.clients.games.opponents import Opponent, one_of, opponent_of
from fast_core.errors import ConfigError

Info = dict[str, Any]
SIDES = ("first", "second", "both")
SYMBOLS = "XO"
_OUTCOMES = {"won": 1, "drawn": 0, "lost": -1}
_FADED = 0.65
_GOLD = (255, 176, 0)
_FRAME = np.pad(np.pad(np.zeros((CELL - 8,) * 2, np.bool_), 2, constant_values=True), 2)


class BoardGame(gymnasium.Env[Observation, np.int64]):
    """A game for one agent that moves for both players in turn, or for one against an opponent.

    Observes a Dict, from the view of the player who moves:

    * ``board`` ``[rows, columns, 2]``: one where a stone of that player lies, and one where a stone
      of the other does;
    * ``moves`` ``[actions]``: a mask for ``environment.action_mask``;
    * ``to_play``: which player that is, 0 for the one who begins and 1 for the other. It stands in
      the observation so that who plans finds it where it acts and in the replay alike. Where it
      differs between two observations, what is good in one is as bad in the other.

    Without an opponent ``to_play`` changes with every step, and a reward is the mover's: 1 for the
    move that wins, 0 for all others. The last observation of an episode is that of the player who
    would move next, with no move allowed.

    With an opponent, which answers within the step, all observations are the agent's, so that
    ``to_play`` is the same in all of an episode, and the reward is -1 where the answer wins.

    The info of an episode's last step has ``outcome``, which is 1, 0 or -1, and the group
    ``episode`` with ``won``, ``drawn`` and ``lost``, of which one is 1: for the agent, or without
    an opponent for the player who began.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["rgb_array", "ansi"],
        "render_fps": 2,
        "play_mode": "ansi",  # a window's keys would be pressed in many frames
    }
    rules: ClassVar[Rules]

    def __init__(
        self,
        opponents: Mapping[str, Callable[[], Opponent]],
        opponent: str | None,
        side: str,
        opening: int,
        render_mode: str | None,
    ) -> None:
        """Make a game.

        Args:
            opponents: Those of the game, by name.
            opponent: Who answers: one of these, or the policy of a run or of a file; None where
                the agent moves for both players.
            side: What the agent plays against an opponent: the ``first`` player, the ``second``,
                or ``both``, one in each episode, as its seed chooses.
            opening: Stones at most that lie on the board at the beginning, at random: each number
                from 0 on is as likely. So one agent that plays against itself sees more than the
                games that it likes.
            render_mode: ``rgb_array`` for pictures, ``ansi`` for text, or None.

        Raises:
            FastLoopError: There is no such opponent, side or opening, or the policy does not fit
                the game.
        """
        most = self.rules.most_without_line
        if type(opening) is not int or not 0 <= opening <= most:
            raise ConfigError(
                f"environment.kwargs.opening of {self.rules.name} must be an integer from 0 to "
                f"{most}, so that nobody has won; got {opening!r}"
            )
        if side not in SIDES or (opponent is None and side != "both"):
            raise ConfigError(
                f"environment.kwargs.side of {self.rules.name} must be one of {', '.join(SIDES)}, "
                f"and both without an opponent; got {side!r} with the opponent {opponent!r}"
            )
        self.render_mode = render_mode
        self.action_space = Discrete(self.rules.actions)
        self.observation_space = Dict(
            {
                "board": Box(0, 1, (*self.rules.places.shape, 2), np.int8),
                "moves": Box(0, 1, (self.rules.actions,), np.int8),
                "to_play": Discrete(2),
            }
        )
        self._opponent = opponent_of(opponent, opponents, self.rules)
        self._side, self._agent, self._opening = side, 0, opening
        self._stones = [0, 0]  # of the player who begins, and of the other
        self._mover = self._last = 0
        self._winner: int | None = None
        self._over = True

    def reset(
        self, *, seed: int | None = None, options: Info | None = None
    ) -> tuple[Observation, Info]:
        """Begin with the opening, to which an opponent may have answered."""
        super().reset(seed=seed)
        self._stones, self._mover, self._last = [0, 0], 0, 0
        self._winner, self._over = None, False
        if self._opponent is not None:
            both = self._side == "both"
            self._agent = int(self.np_random.integers(2)) if both else SIDES.index(self._side)
        for _ in range(int(self.np_random.integers(self._opening + 1)) if self._opening else 0):
            self._put(one_of(self.rules.allowed(self._stones[0] | self._stones[1]), self.np_random))
        if self._opponent is not None and self._mover != self._agent:
            self._answer(self._opponent)
        return self._observation(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, Info]:
        """Put a stone, and let an opponent answer.

        Raises:
            ValueError: The action is not allowed, or the game is over.
        """
        self._put(int(action))
        reward = float(self._winner is not None)
        if self._opponent is not None and not self._over:
            self._answer(self._opponent)
            reward = -float(self._winner is not None)
        return self._observation(), reward, self._over, False, self._info()

    def _answer(self, opponent: Opponent) -> None:
        own, other = self._stones[self._mover], self._stones[1 - self._mover]
        self._put(opponent(own, other, self.np_random))

    def _put(self, action: int) -> None:
        rules, taken = self.rules, self._stones[0] | self._stones[1]
        stone = rules.stone(taken, action) if 0 <= action < rules.actions else 0
        if self._over or not stone:
            raise ValueError(self._refusal(action))
        stones = self._stones[self._mover] | stone
        self._stones[self._mover], self._last = stones, stone
        self._winner = self._mover if rules.won(stones) else None
        self._over = self._winner is not None or taken | stone == rules.full
        self._mover = 1 - self._mover

    def _refusal(self, action: int) -> str:
        if self._over:
            return f"{self.rules.name} is over, or not begun; call reset before step"
        allowed = ", ".join(map(str, self.rules.allowed(self._stones[0] | self._stones[1])))
        return (
            f"{self.rules.name} takes the actions {allowed} now; got {action}. They are `moves` of "
            "the observation: set environment.action_mask to moves."
        )

    def _observation(self) -> Observation:
        player = self._mover if self._opponent is None else self._agent
        own, other = self._stones[player], self._stones[1 - player]
        return self.rules.observed(own, other, player, self._over)

    def _info(self) -> Info:
        if not self._over:
            return {}
        outcome = 0 if self._winner is None else 1 if self._winner == self._agent else -1
        episode = {name: float(outcome == value) for name, value in _OUTCOMES.items()}
        return {"outcome": outcome, "episode": episode}

    def get_action_meanings(self) -> Sequence[str]:
        """The key of each action: 1, 2, 3 and so on."""
        return [str(action + 1) for action in range(self.rules.actions)]

    # --- what it looks like ----------------------------------------------------------------------

    def render(self) -> Any:
        """The board, as a picture or as text."""
        return self._text() if self.render_mode == "ansi" else self._picture()

    def _owners(self) -> NDArray[np.int64]:
        """0 where no stone lies, 1 for one of the player who began, 2 for one of the other."""
        owners: NDArray[np.int64] = self.rules.board(*self._stones) @ np.array([1, 2])
        return owners

    def _text(self) -> str:
        rules, owners = self.rules, self._owners()
        marks = np.where(owners > 0, np.array(list(f" {SYMBOLS}"))[owners], rules.marks)
        said = f"{SYMBOLS[self._mover]} moves"
        if self._over:
            said = "a draw" if self._winner is None else f"{SYMBOLS[self._winner]} has won"
        if self._opponent is not None:
            said += f"; you are {SYMBOLS[self._agent]}"
        rows = [" ".join(row) for row in [*marks.tolist(), *rules.below]]
        return "\n".join([*rows, "", said])

    def _picture(self) -> Picture:
        """The last stone has a frame; once somebody has won, all but the line fade."""
        rules, owners = self.rules, self._owners()
        cells = rules.tiles()[owners].astype(np.float32)
        if self._winner is not None:
            line = rules.line(self._stones[self._winner])
            fade = (owners > 0) & (rules.board(line)[..., 0] == 0)
            cells[fade] += _FADED * (rules.tiles()[0] - cells[fade])
        elif self._last:
            last = np.nonzero(rules.board(self._last)[..., 0])
            cells[last] = np.where(_FRAME[..., None], _GOLD, cells[last])
        height, width = owners.shape
        joined = cells.transpose(0, 2, 1, 3, 4).reshape(height * CELL, width * CELL, 3)
        return joined.astype(np.uint8)
