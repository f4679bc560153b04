"""Four in a row: where stones fall, what wins, and a search that is a plain minimax."""

from __future__ import annotations

import numpy as np
import pytest

from fast_core.clients.games.connect_four import (
    COLUMNS,
    ROWS,
    RULES,
    AlphaBeta,
    ConnectFour,
    best_actions,
    value,
)
from fast_core.errors import ConfigError

Position = tuple[int, int]


def has_line(board: np.ndarray) -> bool:
    """Whether four of the cells ``[rows, columns]`` that are set lie in a line."""
    for row, column in np.argwhere(board):
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            cells = [(row + n * down, column + n * right) for n in range(4)]
            within = all(0 <= r < ROWS and 0 <= c < COLUMNS for r, c in cells)
            if within and all(board[cell] for cell in cells):
                return True
    return False


def positions(count: int, seed: int) -> list[Position]:
    """Of random games that are not over, of all lengths."""
    random, found = np.random.default_rng(seed), list[Position]()
    while len(found) < count:
        own, other = 0, 0
        for _ in range(random.integers(0, 38)):
            if RULES.won(other) or own | other == RULES.full:
                break
            stone = RULES.stone(own | other, random.choice(RULES.allowed(own | other)))
            own, other = other, own | stone
        if not RULES.won(other) and own | other != RULES.full:
            found.append((own, other))
    return found


def guess(own: int, other: int) -> int:
    """Empty cells that would complete a line, own less the other's, one cell after the other."""
    empty = [1 << p for p in RULES.places.ravel().tolist() if not (own | other) >> p & 1]
    return sum(
        int(RULES.won(own | cell)) - int(RULES.won(other | cell)) for cell in empty
    )  # no line is there yet


def minimax(own: int, other: int, depth: int) -> int:
    if own | other == RULES.full:
        return 0
    if depth == 0:
        return guess(own, other)
    return max(values(own, other, depth).values())


def values(own: int, other: int, depth: int) -> dict[int, int]:
    found = {}
    for action in RULES.allowed(own | other):
        after = own | RULES.stone(own | other, action)
        found[action] = 1000 + depth if RULES.won(after) else -minimax(other, after, depth - 1)
    return found


def test_lines_are_all_that_there_are() -> None:
    assert len(set(RULES.lines)) == len(RULES.lines) == 69
    random, won = np.random.default_rng(0), 0
    for share in np.linspace(0.2, 0.7, 400):
        board = random.random((ROWS, COLUMNS)) < share
        stones = sum(1 << int(place) for place in RULES.places[board])
        assert RULES.won(stones) == has_line(board) == (RULES.line(stones) > 0)
        won += has_line(board)
    assert 50 < won < 350


def test_stones_fall_on_those_that_are_there() -> None:
    env = ConnectFour()
    env.reset(seed=0)
    for _ in range(ROWS):
        obs, *_ = env.step(np.int64(2))
    assert obs["board"][:, 2].tolist() == [[0, 1], [1, 0]] * 3, "the highest is the other's"
    assert obs["moves"].tolist() == [1, 1, 0, 1, 1, 1, 1]
    assert obs["board"].sum() == ROWS


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_search_is_a_plain_minimax(depth: int) -> None:
    for own, other in positions({1: 300, 2: 200, 3: 60, 4: 15}[depth], depth):
        plain = values(own, other, depth)
        best = max(plain.values())
        assert value(own, other, depth) == best
        assert set(best_actions(own, other, depth)) == {a for a, v in plain.items() if v == best}


def test_search_bounds_what_lies_beyond_its_limits() -> None:
    for own, other in positions(100, 9):
        exact = value(own, other, 3)
        assert value(own, other, 3, exact, exact + 1) <= exact
        assert value(own, other, 3, exact - 1, exact) >= exact


def test_depth_decides_who_wins() -> None:
    env, random = ConnectFour(opponent="alpha_beta", depth=3), np.random.default_rng(0)
    shallow, outcomes = AlphaBeta(1), list[int]()
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            board = obs["board"]
            own, other = (
                sum(1 << int(place) for place in RULES.places[board[..., n] == 1]) for n in (0, 1)
            )
            obs, _, over, _, info = env.step(np.int64(shallow(own, other, random)))
        outcomes.append(info["outcome"])
    assert np.mean(outcomes) < -0.3


@pytest.mark.parametrize("depth", [0, 13, 2.0, True])
def test_depth_out_of_range_is_refused(depth: int) -> None:
    with pytest.raises(ConfigError, match=r"environment\.kwargs\.depth of .* from 1 to 12; got"):
        ConnectFour(opponent="alpha_beta", depth=depth)
