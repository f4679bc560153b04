"""Color Lines: balls go over empty cells, lines are taken off, and the board fills up."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from fast_core.clients.games.color_lines import ColorLines
from fast_core.config import EnvironmentConfig
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError


def game(rows: list[str], **kwargs: Any) -> ColorLines:
    """A game in which the balls lie as drawn; a dot is an empty cell."""
    env = ColorLines(size=len(rows), **kwargs)
    env.reset(seed=0)
    env._board[...] = [[0 if ball == "." else int(ball) for ball in row] for row in rows]
    env._observation()  # which says what is allowed
    return env


def move(env: ColorLines, origin: tuple[int, int], target: tuple[int, int]) -> Any:
    size = len(env._board)
    (a, b), (c, d) = origin, target
    return env.step(np.int64((a * size + b) * size**2 + c * size + d))


@pytest.mark.parametrize(
    ("rows", "origin", "target", "reward"),
    [
        (["11..", "...1", "....", "...."], (1, 3), (0, 2), 3),  # a row
        (["1...", "1...", ".1..", "...."], (2, 1), (2, 0), 3),  # a column
        (["1...", ".1..", "....", "..1."], (3, 2), (2, 2), 3),  # a diagonal
        (["...1", "..1.", "....", "1..."], (3, 0), (2, 1), 3),  # the other one
        (["11..", "..1.", "..1.", "1..."], (3, 0), (0, 2), 5),  # two at once
        (["11..", "...2", "....", "...."], (1, 3), (0, 2), 0),  # of two colours
    ],
)
def test_lines_of_one_colour_are_taken(
    rows: list[str], origin: tuple[int, int], target: tuple[int, int], reward: int
) -> None:
    env = game(rows, new=1)
    before = int((env._board > 0).sum())
    obs, given, terminated, _, _ = move(env, origin, target)
    assert given == reward and not terminated
    left = before - reward if reward else before + 1
    assert obs["board"].sum() == (left or 1), "balls fall on an empty board"


def test_balls_go_over_empty_cells_alone() -> None:
    env = game(["1.2.", "222.", "....", "...."], line=4)
    moves = env._moves().reshape(4, 4, 4, 4)
    assert np.argwhere(moves[0, 0]).tolist() == [[0, 1]], "it is walled in"
    assert moves[0, 2, 3, 0] and moves[0, 2, 0, 1] and not moves[0, 1].any()
    assert not moves[:, :, 0, 0].any(), "where a ball lies"
    board = env._board.copy()
    _, reward, _, _, _ = move(env, (0, 0), (3, 3))
    assert reward == 0 and (env._board[board > 0] == board[board > 0]).all(), "it costs the turn"


def test_announced_colours_fall_and_a_full_board_is_the_end() -> None:
    env = game(["12121", "21212", "12121", "21212", "12.2."], line=5, new=2)
    env._next[...] = [3, 3]
    obs, reward, terminated, _, _ = move(env, (4, 3), (4, 2))
    assert reward == 0 and terminated
    assert obs["board"][..., 2].sum() == 2 and not obs["moves"].any()


def test_it_is_an_environment_that_runs_can_use() -> None:
    check_env(ColorLines(render_mode="rgb_array"), skip_render_check=True)
    config = EnvironmentConfig(
        id="fastloop/ColorLines-v0",
        modules=("fast_core.clients.games.color_lines",),
        action_mask="moves",
    )
    found = probe(config, 0)
    assert found.repeatable and found.action_mask == "moves" and found.action.n == 625
    env = gymnasium.make("fastloop/ColorLines-v0", render_mode="rgb_array")
    env.reset(seed=1)
    picture = np.asarray(env.render())
    assert picture.shape == (160, 160, 3) and picture.dtype == np.uint8
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) in (3, 4), "cells, edges and the balls"


@pytest.mark.parametrize("kwargs", [{"size": 2}, {"colours": 8}, {"line": 6}, {"new": 0}])
def test_numbers_out_of_range_are_refused(kwargs: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(kwargs))):
        ColorLines(**kwargs)  # type: ignore[arg-type]
