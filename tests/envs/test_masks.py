from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from hypothesis import given
from hypothesis import strategies as st

from fast_core.envs.masks import Masks, choices, random_action, valid_action
from fast_core.envs.spaces import action_spec
from fast_core.errors import ConfigError

MANY = action_spec(MultiDiscrete([3, 2, 4], start=[0, 1, -1]), "it")
ONE = action_spec(Discrete(3, start=5), "it")
SPACES = [
    Discrete(3, start=5),
    MultiDiscrete([3, 2, 4], start=[0, 1, -1]),
    MultiDiscrete([[3, 2], [1, 4]], dtype=np.int32),
    MultiBinary([2, 3]),
    Box(-2.0, -1.0, (2, 2), np.float32),
    Box(np.array([1, -np.inf]), np.array([np.inf, -3]), dtype=np.float64),
    Box(3, 9, (2,), np.uint8),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_made_up_actions_lie_in_their_space(space: Any) -> None:
    spec = action_spec(space, "it")
    generator = np.random.default_rng(0)
    for action in (valid_action(spec), *(random_action(spec, generator) for _ in range(20))):
        assert (action.shape, action.dtype) == (spec.shape, space.dtype)
        if space.__class__ is not Box or np.isfinite(space.low).all():
            assert space.contains(action)
    assert space.contains(valid_action(spec))


def test_the_valid_action_of_a_box_is_the_point_nearest_to_zero() -> None:
    assert valid_action(action_spec(SPACES[5], "it")).tolist() == [1.0, -3.0]


@given(st.lists(st.booleans(), min_size=9, max_size=9), st.integers(0, 99))
def test_masks_are_respected_and_stuck_ones_found(bits: list[bool], seed: int) -> None:
    parts = [bits[:3], bits[3:5], bits[5:]]
    possible = all(any(part) for part in parts)
    array = np.array([[True] * 9, bits])
    masks = Masks(array, MANY)
    assert (masks.open(1), masks.stuck()) == (possible, None if possible else 1)
    if not possible:
        where = [any(part) for part in parts].index(False)
        assert masks.cause(1).endswith(f"allows no action in dimension {where}")
        return
    for action in (
        valid_action(MANY, array[1]),
        valid_action(MANY, array[1].astype(np.int8) * 2),
        random_action(MANY, np.random.default_rng(seed), array[1]),
    ):
        chosen = action - MANY.starts
        assert all(part[choice] for part, choice in zip(parts, chosen, strict=True))


def test_every_allowed_choice_is_drawn_and_no_other() -> None:
    mask = np.array([True, False, True])
    generator = np.random.default_rng(0)
    assert {int(random_action(ONE, generator, mask)) for _ in range(50)} == {5, 7}
    assert int(valid_action(ONE, ~mask)) == 6


def test_allowing_everything_changes_the_rows_asked_for() -> None:
    array = np.zeros((3, 3), np.bool_)
    masks = Masks(array, ONE)
    assert masks.stuck() == 0
    masks.allow_all(1)
    assert array.any(axis=1).tolist() == [False, True, False]
    masks.allow_all()
    assert array.all()


def test_no_part_of_a_box_can_be_forbidden() -> None:
    with pytest.raises(ConfigError, match=r"action_mask needs actions that are choices.*got box"):
        choices(action_spec(SPACES[4], "it"))
