"""Noughts and crosses: its lines, and a player in whom a plain minimax finds no fault."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fast_core.clients.games.tic_tac_toe import RULES, Perfect, TicTacToe, best_actions, value

Cells = tuple[int, ...]  # 1 for who moves, -1 for the other, 0 for none


def has_line(cells: Cells, player: int) -> bool:
    board = np.array(cells).reshape(3, 3) == player
    diagonals = board.diagonal().all() or board[:, ::-1].diagonal().all()
    return bool(board.all(0).any() or board.all(1).any() or diagonals)


def after(cells: Cells, action: int) -> Cells:
    return tuple(-each for each in (*cells[:action], 1, *cells[action + 1 :]))


@cache
def minimax(cells: Cells) -> int:
    """1, 0 or -1 for who moves, by playing everything to its end."""
    if has_line(cells, -1):
        return -1
    empty = [at for at, owner in enumerate(cells) if not owner]
    return max((-minimax(after(cells, at)) for at in empty), default=0)


def reachable(cells: Cells, found: set[Cells]) -> set[Cells]:
    if cells not in found:
        found.add(cells)
        if not has_line(cells, -1):
            for at, owner in enumerate(cells):
                if not owner:
                    reachable(after(cells, at), found)
    return found


def bits(cells: Cells, player: int) -> int:
    return sum(1 << at for at, owner in enumerate(cells) if owner == player)


def test_perfect_player_is_a_plain_minimax_everywhere() -> None:
    positions = reachable((0,) * 9, set())
    assert len(positions) == 5478, "as is known of the game"
    for cells in positions:
        own, other = bits(cells, 1), bits(cells, -1)
        assert RULES.won(other) == has_line(cells, -1)
        assert np.sign(value(own, other)) == minimax(cells)
        if not has_line(cells, -1) and 0 in cells:
            best = best_actions(own, other)
            assert all(-minimax(after(cells, at)) == minimax(cells) for at in best)


def test_perfect_player_wins_at_once_and_loses_late() -> None:
    assert best_actions(0b000_000_011, 0b000_011_000) == (2,), "not the one that prevents 5"
    assert value(0b000_000_010, 0b000_010_001) < 0
    assert best_actions(0b000_000_010, 0b000_010_001) == (8,), "what prevents the first line"


@pytest.mark.parametrize("side", ["first", "second"])
def test_nobody_wins_against_the_perfect_player(side: str) -> None:
    env, random = TicTacToe(opponent="perfect", side=side), np.random.default_rng(0)
    outcomes = []
    for seed in range(100):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            obs, _, over, _, info = env.step(random.choice(np.flatnonzero(obs["moves"])))
        outcomes.append(info["outcome"])
    assert max(outcomes) == 0 and min(outcomes) == -1


def test_perfect_player_has_more_than_one_way() -> None:
    random = np.random.default_rng(0)
    assert {Perfect()(0, 0, random) for _ in range(200)} == set(range(9))
