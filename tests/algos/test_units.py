"""The same task in other units of the action is learned in the same way, to the last bit."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from fast_core.algorithm import LearnerSetup
from tests.algos.replay_cases import BOX, make_config
from tests.algos.simple_replay import train


class Steered(gymnasium.Env[Any, Any]):
    """A mass is pushed to the middle, in a box of ``[-unit, unit]``; far out the episode ends."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float32)

    def __init__(self, unit: float) -> None:
        self.unit = unit
        self.action_space = Box(-unit, unit, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=2).astype(np.float32)
        return self.state.copy(), {}

    def step(self, action: Any) -> Any:
        self.state = self.state + np.float32(0.3) * (action / np.float32(self.unit))
        distance = float(np.square(self.state).sum())
        return self.state.copy(), -distance, distance > 9.0, distance < 0.01, {}


@pytest.mark.parametrize("name", BOX)
def test_replay_learns_the_same_numbers_in_any_unit(name: str) -> None:
    # Powers of two, so that the environment's own division is exact.
    scores = [
        train(
            make_config(name),
            "Steered-v0",
            steps=200,
            warmup=50,
            every=50,
            setup=LearnerSetup(0, 1, 1, 1),
            make=lambda _, unit=unit: gymnasium.wrappers.TimeLimit(Steered(unit), 25),
        )
        for unit in (1.0, 2.0**-13, 2.0**13)
    ]
    assert len(set(scores[0])) == 4, "nothing was learned"
    assert scores[1] == scores[0]
    assert scores[2] == scores[0]
