"""Random play takes every allowed action equally often, and says how likely it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space

from fast_core.algorithm import PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.random.config import RandomConfig
from fast_core.envs.spaces import action_spec
from fast_core.system.seeding import Role, stream

ROWS = 4000
PLAIN = SpaceSpec("box", (2,), "float32", low=(0.0,), high=(1.0,))


def played(space: Space[Any], mask: Any = None, *, explore: bool = True) -> tuple[Any, Any]:
    """What the environment takes, and the log-probabilities."""
    action, observation, obs = action_spec(space, "it"), PLAIN, np.zeros((ROWS, 2), np.float32)
    name = None
    if mask is not None:
        leaf = SpaceSpec("box", (len(mask),), "bool", low=(0.0,), high=(1.0,))
        observation, name = SpaceSpec.composite([("obs", PLAIN), ("open", leaf)]), "open"
        obs = np.zeros(ROWS, observation.row_dtype)
        obs["open"] = mask
    spec = EnvironmentSpec("it", observation, action, action_mask=name)
    config = RandomConfig()
    noise, generator = config.noise(spec), stream(0, Role.ACTION_NOISE, 0)
    draw = generator.random if noise.kind == "uniform" else generator.standard_normal
    policy = config.make_policy(spec, PolicySetup())
    drawn = draw((ROWS, *noise.shape), np.float32) if explore else np.zeros((ROWS, *noise.shape))
    output = policy.act(obs, noise=drawn, explore=explore)
    return policy.environment_action(output.action), output.behaviour_log_prob


def shares(values: Any) -> dict[int, float]:
    return {int(v): n / ROWS for v, n in zip(*np.unique(values, return_counts=True), strict=True)}


@pytest.mark.parametrize(
    ("mask", "expected"), [(None, (3, 4, 5, 6)), ((True, False, False, True), (3, 6))]
)
def test_allowed_choices_are_equally_likely(mask: Any, expected: tuple[int, ...]) -> None:
    action, log_prob = played(Discrete(4, start=3), mask)
    assert shares(action) == pytest.approx(dict.fromkeys(expected, 1 / len(expected)), abs=0.03)
    assert log_prob == pytest.approx(np.full(ROWS, -math.log(len(expected))))


def test_several_choices_are_made_apart() -> None:
    action, log_prob = played(MultiDiscrete([2, 3]), (True, False, True, True, False))
    assert shares(action[:, 0]) == {0: 1.0}
    assert shares(action[:, 1]) == pytest.approx({0: 0.5, 1: 0.5}, abs=0.03)
    assert log_prob == pytest.approx(np.full(ROWS, -math.log(2)))


def test_an_evaluation_is_left_to_chance_too() -> None:
    action, _ = played(Discrete(4), explore=False)
    assert shares(action) == pytest.approx(dict.fromkeys(range(4), 0.25), abs=0.03)


@pytest.mark.parametrize("explore", [True, False])
def test_boxes_are_covered_evenly(explore: bool) -> None:
    action, _ = played(Box(np.float32([-1, 2]), np.float32([1, 6])), explore=explore)
    assert (
        pytest.approx(np.array([[-0.5, 0, 0.5], [3, 4, 5]]), abs=0.15)
        == np.quantile(action, (0.25, 0.5, 0.75), axis=0).T
    )
    assert (action >= [-1, 2]).all() and (action <= [1, 6]).all()
