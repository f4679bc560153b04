"""Fixed players: what each of them sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.clients.games.connect_four import RULES as FOUR
from fast_core.clients.games.connect_four import ConnectFour
from fast_core.clients.games.opponents import AtRandom, OnePly
from fast_core.clients.games.tic_tac_toe import RULES, TicTacToe
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError, PolicyError
from fast_core.launcher.run import launch
from fast_core.policy.loading import load_policy


def chosen(opponent: Any, own: int, other: int) -> set[int]:
    random = np.random.default_rng(0)
    return {opponent(own, other, random) for _ in range(100)}


def test_random_player_takes_all_that_is_allowed() -> None:
    assert chosen(AtRandom(RULES), 0b000_000_011, 0b000_011_000) == {2, 5, 6, 7, 8}


def test_one_ply_wins_then_prevents_then_does_anything() -> None:
    player = OnePly(RULES)
    assert chosen(player, 0b000_000_011, 0b000_011_000) == {2}
    assert chosen(player, 0b000_000_001, 0b000_011_000) == {5}
    assert chosen(player, 0b000_000_001, 0b000_010_000) == {1, 2, 3, 5, 6, 7, 8}
    three = 0b111  # in the first column, from its floor
    assert chosen(OnePly(FOUR), three << 7, three) == {1}
    assert chosen(OnePly(FOUR), 1 << 7, three) == {0}


def trained(folder: Path, *overrides: str) -> Path:
    """A policy that has learned next to nothing."""
    text = """
      name: short
      mode: inline
      environment:
        id: fastloop/TicTacToe-v0
        modules: [fast_core.clients.games.tic_tac_toe]
        action_mask: moves
      algorithm: {name: ppo, hidden_sizes: [8], minibatch_size: 32}
      rollout: {shards: 1, envs_per_shard: 2, steps: 32}
      evaluation: {every_env_steps: null}
      metrics: {tensorboard: false}
      stop: {env_steps: 64}
    """
    given = [f"directory={folder}", *overrides]
    config = config_file.loads(text, given, algorithm_config_type, source="a test")
    launch(config)
    return next((folder / "short").iterdir())


def test_policy_plays_as_it_acts(tmp_path: Path) -> None:
    run = trained(tmp_path)
    policy, env = load_policy(run), TicTacToe()
    against = TicTacToe(opponent=str(run), side="second")
    obs, _ = env.reset(seed=0)
    seen, _ = against.reset(seed=0)
    over = False
    while not over:
        action, _ = policy(obs)
        obs, _, over, _, _ = env.step(action)
        if not over and obs["to_play"]:
            assert all(np.array_equal(obs[key], seen[key]) for key in obs)
            move = np.int64(np.flatnonzero(obs["moves"])[-1])
            obs, _, over, _, _ = env.step(move)
            seen, *_ = against.step(move)
    against = TicTacToe(opponent=str(run), side="first")
    given: list[Any] = []
    against._opponent._policy = lambda obs: given.append(obs) or policy(obs)  # type: ignore[union-attr]
    for each in (env, against):
        each.reset(seed=0)
        each.step(np.int64(4))
    obs = env._observation()
    assert obs["to_play"] == 1
    assert all(np.array_equal(given[0][key], obs[key]) for key in obs)
    with pytest.raises(PolicyError, match=r"can't play fastloop/ConnectFour-v0"):
        ConnectFour(opponent=str(run))


def test_policies_that_see_more_than_the_position_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path, "algorithm.recurrent=gru")
    with pytest.raises(PolicyError, match="has a memory"):
        TicTacToe(opponent=str(run))


def test_policy_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing"):
        TicTacToe(opponent=str(tmp_path / "nothing"))
