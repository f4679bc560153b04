"""Random numbers that drawing an environment took are put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from gymnasium.utils.seeding import np_random

from fast_core.envs.drawing.random_states import RandomStates


class Several(gymnasium.Env[Any, Any]):
    """Has random numbers of every kind."""

    def __init__(self) -> None:
        self.action_space = Discrete(1000)
        self._np_random, _ = np_random(3)
        self.legacy = np.random.RandomState(3)
        self.twister = np.random.Generator(np.random.MT19937(3))
        self.python = random.Random(3)
        self.action_space.seed(3)

    def numbers(self) -> list[float]:
        return [
            self.np_random.random(),
            self.legacy.random(),
            self.twister.random(),
            self.python.random(),
            float(self.action_space.sample()),
            random.random(),
            np.random.random(),  # noqa: NPY002
        ]


def anew(env: Several) -> None:
    env._np_random, _ = np_random(9)


MOVES: dict[str, Callable[[Several], object]] = {
    "own": lambda env: env.np_random.random(),
    "another own": anew,
    "legacy": lambda env: env.legacy.random(),
    "twister": lambda env: env.twister.integers(7),
    "python": lambda env: env.python.gauss(),
    "space": lambda env: env.action_space.sample(),
    "global": lambda env: random.random(),
    "NumPy's": lambda env: np.random.standard_normal(),  # noqa: NPY002
}


@pytest.mark.parametrize("move", MOVES)
def test_what_moved_is_put_back_and_said(move: str) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    reference = Several().numbers()
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    env = Several()
    outer: gymnasium.Wrapper[Any, Any, Any, Any] = gymnasium.Wrapper(env)
    kept = RandomStates([outer, env])
    MOVES[move](env)
    assert kept.put_back()
    assert env.numbers() == reference


def test_what_did_not_move_is_left_alone() -> None:
    env = Several()
    kept = RandomStates([env, object()])
    assert not kept.put_back()


def test_generator_without_a_state_is_left_alone() -> None:
    env = Several()
    env.python = random.SystemRandom()
    kept = RandomStates([env])
    env.np_random.random()
    assert kept.put_back()


def test_generator_that_does_not_exist_yet_is_not_made() -> None:
    env: gymnasium.Env[Any, Any] = gymnasium.Env()
    assert not RandomStates([env]).put_back()
    assert "_np_random" not in vars(env)
