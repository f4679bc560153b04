"""Games of two players: what each sees, who is rewarded, who answers, and how it looks."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from fast_core.clients.games.board_game import BoardGame
from fast_core.clients.games.connect_four import ConnectFour
from fast_core.clients.games.tic_tac_toe import TicTacToe
from fast_core.config import EnvironmentConfig
from fast_core.errors import ConfigError
from fast_core.testing import check_environment

GAMES = {"TicTacToe": TicTacToe, "ConnectFour": ConnectFour}
MODULES = {"TicTacToe": "tic_tac_toe", "ConnectFour": "connect_four"}


def played(env: BoardGame, *actions: int, seed: int = 0) -> tuple[Any, float, bool, Any]:
    obs, info = env.reset(seed=seed)
    reward, over = 0.0, False
    for action in actions:
        obs, reward, over, _, info = env.step(np.int64(action))
    return obs, reward, over, info


@pytest.mark.parametrize("opponent", [None, "one_ply"])
@pytest.mark.parametrize("name", GAMES)
def test_it_is_an_environment_that_runs_can_use(name: str, opponent: str | None) -> None:
    module = f"fast_core.clients.games.{MODULES[name]}"
    config = EnvironmentConfig(
        id=f"fastloop/{name}-v0",
        modules=(module,),
        action_mask="moves",
        kwargs={"opponent": opponent},
    )
    check_environment(config, steps=60)
    check_env(gymnasium.make(config.id, render_mode="rgb_array").unwrapped, skip_render_check=True)


def test_each_move_is_seen_by_who_moves_next() -> None:
    env = TicTacToe()
    obs, reward, over, _ = played(env, 4)
    assert obs["to_play"] == 1 and reward == 0 and not over
    assert obs["board"][..., 0].sum() == 0 and obs["board"][1, 1].tolist() == [0, 1]
    assert obs["moves"].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    obs, *_ = played(env, 4, 0)
    assert obs["to_play"] == 0
    assert obs["board"][1, 1].tolist() == [1, 0] and obs["board"][0, 0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("actions", "reward", "outcome"),
    [
        ((0, 3, 1, 4, 2), 1, 1),  # the player who begins
        ((0, 3, 1, 4, 8, 5), 1, -1),  # the other one, who is rewarded too
        ((0, 1, 2, 4, 3, 5, 7, 6, 8), 0, 0),
    ],
)
def test_who_wins_is_rewarded(actions: tuple[int, ...], reward: float, outcome: int) -> None:
    env = TicTacToe()
    *_, before_reward, before_over, before_info = played(env, *actions[:-1])
    assert before_reward == 0 and not before_over and before_info == {}
    obs, given, over, info = played(env, *actions)
    assert given == reward and over and info["outcome"] == outcome
    assert obs["to_play"] == len(actions) % 2 and not obs["moves"].any()
    names = {1: "won", 0: "drawn", -1: "lost"}
    assert info["episode"] == {name: float(value == outcome) for value, name in names.items()}


@pytest.mark.parametrize("side", ["first", "second"])
def test_opponent_answers_within_the_step(side: str) -> None:
    env, player = TicTacToe(opponent="random", side=side), int(side == "second")
    rewards = set()
    for seed in range(30):
        obs, _ = env.reset(seed=seed)
        over, reward, info = False, 0.0, {}
        while not over:
            assert reward == 0 and info == {}
            assert obs["to_play"] == player
            assert obs["board"][..., 0].sum() == obs["board"][..., 1].sum() - player
            obs, reward, over, _, info = env.step(np.int64(np.flatnonzero(obs["moves"])[0]))
        assert obs["to_play"] == player, "the last observation is the agent's too"
        assert reward == info["outcome"]
        rewards.add(reward)
    assert rewards >= {1.0, -1.0}


def test_seed_chooses_the_side_and_what_the_opponent_does() -> None:
    one, two = TicTacToe(opponent="random"), TicTacToe(opponent="random")
    two.reset(seed=5)
    sides = set()
    for seed in range(20):
        (obs, _), (same, _) = one.reset(seed=seed), two.reset(seed=seed)
        sides.add(int(obs["to_play"]))
        action = np.int64(np.flatnonzero(obs["moves"])[-1])
        obs, same = one.step(action)[0], two.step(action)[0]
        assert all(np.array_equal(obs[key], same[key]) for key in obs)
    assert sides == {0, 1}


@pytest.mark.parametrize(("side", "first"), [("first", 0), ("second", 1)])
def test_games_begin_with_random_stones(side: str, first: int) -> None:
    alone, against = TicTacToe(opening=3), TicTacToe(opening=3, opponent="random", side=side)
    counts, boards = [0] * 4, set()
    for seed in range(200):
        obs, _ = alone.reset(seed=seed)
        stones = int(obs["board"].sum())
        counts[stones] += 1
        boards.add(obs["board"].tobytes())
        assert obs["to_play"] == stones % 2 and obs["moves"].sum() == 9 - stones
        assert obs["board"][..., 0].sum() == stones // 2
        obs, _ = against.reset(seed=seed)
        assert obs["to_play"] == first and int(obs["board"].sum()) % 2 == first
    assert min(counts) > 30, "each number of stones is as likely"
    assert len(boards) > 50


@pytest.mark.parametrize(("game", "opening"), [(TicTacToe, 5), (ConnectFour, 7), (TicTacToe, -1)])
def test_openings_after_which_somebody_may_have_won_are_refused(game: Any, opening: int) -> None:
    with pytest.raises(ConfigError, match=rf"from 0 to {4 if game is TicTacToe else 6}, so that"):
        game(opening=opening)


def test_forbidden_moves_are_refused() -> None:
    env = TicTacToe()
    with pytest.raises(ValueError, match="is over, or not begun; call reset"):
        env.step(np.int64(0))
    played(env, 4)
    for action in (4, -1, 9):
        with pytest.raises(
            ValueError,
            match=rf"takes the actions 0, 1, 2, 3, 5, 6, 7, 8 now; got {action}\. .*mask",
        ):
            env.step(np.int64(action))
    obs = env.step(np.int64(0))[0]
    assert obs["board"].sum() == 2, "a move that was refused is none"


@pytest.mark.parametrize(
    "kwargs", [{"opponent": "alpha_beta"}, {"opponent": 3}, {"opponent": ["random"]}]
)
def test_opponents_that_there_are_not_are_refused(kwargs: Any) -> None:
    with pytest.raises(ConfigError, match="one of random, one_ply, perfect, or the path"):
        TicTacToe(**kwargs)


@pytest.mark.parametrize("kwargs", [{"opponent": "random", "side": "third"}, {"side": "first"}])
def test_sides_that_there_are_not_are_refused(kwargs: Any) -> None:
    with pytest.raises(ConfigError, match="must be one of first, second, both, and both without"):
        ConnectFour(**kwargs)


def test_text_says_how_it_stands() -> None:
    env = TicTacToe(render_mode="ansi")
    played(env, 0, 4)
    assert env.render() == "X 2 3\n4 O 6\n7 8 9\n\nX moves"
    played(env, 0, 4, 1, 5, 2)
    assert env.render().endswith("\n\nX has won")
    against = ConnectFour(opponent="one_ply", side="second", render_mode="ansi")
    played(against)
    *rows, keys, _, said = against.render().splitlines()
    assert len(rows) == 6 and set("".join(rows)) == {".", " ", "X"}
    assert keys == "1 2 3 4 5 6 7" and said == "O moves; you are O"


@pytest.mark.parametrize(("name", "size"), [("TicTacToe", (3, 3)), ("ConnectFour", (6, 7))])
def test_picture_shows_stones_the_last_one_and_the_line(name: str, size: tuple[int, int]) -> None:
    env: BoardGame = GAMES[name](render_mode="rgb_array")
    played(env)
    empty, first, _ = env.rules.tiles()

    def cells() -> np.ndarray:
        picture = env.render()
        assert picture.dtype == np.uint8
        return picture.reshape(size[0], 64, size[1], 64, 3).swapaxes(1, 2)

    assert (cells() == empty).all()
    played(env, 0, 1)
    shown, owners = cells(), env._owners()
    assert (shown[owners == 1] == first).all() and (shown[owners == 0] == empty).all()
    assert (shown[owners == 2] == (255, 176, 0)).all(-1).any(), "the last one is framed"
    moves = (0, 3, 1, 4, 2) if name == "TicTacToe" else (0, 1, 0, 1, 0, 1, 0)
    played(env, *moves)
    shown, owners = cells(), env._owners()
    assert (shown[owners == 1] == first).all(), "the line stays"
    faded = shown[owners == 2].astype(int)
    assert abs(faded - empty).max() < abs(env.rules.tiles()[2].astype(int) - empty).max() / 2
