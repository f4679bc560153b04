from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from fast_core.algorithm.spec import Branch, SpaceSpec
from fast_core.envs.spaces import action_spec, observation_form
from fast_core.errors import ConfigError

VECTOR = Box(-1.0, 1.0, (2,), np.float32)


def space_spec(space: spaces.Space[Any], what: str) -> SpaceSpec:
    return observation_form(space, what).space


def test_a_box_with_equal_bounds_carries_one_number_each() -> None:
    image = space_spec(Box(0, 255, (84, 84, 4), np.uint8), "it")
    assert image == SpaceSpec(
        kind="box", shape=(84, 84, 4), dtype="uint8", low=(0.0,), high=(255.0,)
    )
    low, high = image.bounds
    assert (low.shape, low.max(), high.min()) == ((84, 84, 4), 0.0, 255.0)


def test_a_box_that_is_one_number_has_bounds_of_its_shape() -> None:
    low, high = space_spec(Box(-1, 2, (), np.float32), "here").bounds
    assert (low.shape, high.shape) == ((), ())
    assert (float(low), float(high)) == (-1, 2)


def test_different_bounds_are_kept_one_by_one() -> None:
    low, high = np.array([[0, 1], [2, 3]], np.float32), np.full((2, 2), 5, np.float32)
    spec = space_spec(Box(low, high, dtype=np.float32), "it")
    assert (spec.low, spec.high) == ((0.0, 1.0, 2.0, 3.0), (5.0,))
    assert np.array_equal(spec.bounds[0], low)
    assert np.array_equal(spec.bounds[1], high)


def test_nested_dicts_and_tuples_become_named_leaves() -> None:
    space = Dict(
        {
            "b": Tuple((Discrete(3, start=-1), Dict({"x": VECTOR}))),
            "a": MultiDiscrete([2, 3], start=[0, 1]),
        }
    )
    form = observation_form(space, "it")
    assert [name for name, _ in form.space.parts] == ["a", "b/0", "b/1/x"]
    parts = dict(form.space.parts)
    assert parts["a"] == SpaceSpec(
        kind="multi_discrete", shape=(2,), dtype="int64", counts=(2, 3), starts=(0, 1)
    )
    assert parts["b/0"] == SpaceSpec(kind="discrete", shape=(), dtype="int64", n=3, start=-1)
    assert form.tree == Branch(
        "",
        ("a", "b"),
        ("a", Branch("b", (0, 1), ("b/0", Branch("b/1", ("x",), ("b/1/x",), True)), False)),
        True,
    )
    assert form.space.row_dtype.names == ("a", "b/0", "b/1/x")


def test_a_multi_binary_observation_is_a_box_and_an_action_two_choices_each() -> None:
    space = MultiBinary([2, 2])
    assert space_spec(space, "it") == SpaceSpec(
        kind="box", shape=(2, 2), dtype="int8", low=(0.0,), high=(1.0,)
    )
    assert action_spec(space, "it") == SpaceSpec(
        kind="multi_discrete", shape=(2, 2), dtype="int8", counts=(2,) * 4, starts=(0,) * 4
    )


def test_an_element_of_a_box_of_integers_is_a_choice() -> None:
    low, high = np.array([[-2, 0], [5, 0]], np.int16), np.array([[2, 0], [9, 1]], np.int16)
    assert action_spec(Box(low, high, dtype=np.int16), "it") == SpaceSpec(
        kind="multi_discrete",
        shape=(2, 2),
        dtype="int16",
        counts=(5, 1, 5, 2),
        starts=(-2, 0, 5, 0),
    )
    assert action_spec(Box(0, 1, (2,), np.bool_), "it").counts == (2, 2)
    with pytest.raises(
        ConfigError, match=r"the space is .*choices, 13835058055282163713 in all.*BoundAction"
    ):
        action_spec(Box(-(2**63), 2**62, (1,), np.int64), "the space")


def test_a_multi_discrete_action_keeps_its_shape() -> None:
    space = MultiDiscrete([[3, 2], [2, 4]], start=[[0, 1], [2, 3]], dtype=np.int32)
    assert action_spec(space, "it") == SpaceSpec(
        kind="multi_discrete",
        shape=(2, 2),
        dtype="int32",
        counts=(3, 2, 2, 4),
        starts=(0, 1, 2, 3),
    )


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Graph(VECTOR, None),
        spaces.Sequence(VECTOR),
        spaces.OneOf((VECTOR, Discrete(2))),
    ],
)
def test_other_spaces_are_refused_wherever_they_are(space: Any) -> None:
    for describe in (space_spec, action_spec):
        with pytest.raises(ConfigError, match=r"the space .*Wrap the environment"):
            describe(space, "the space")
    with pytest.raises(ConfigError, match=r"the space, part 'a/0', is .*Wrap the environment"):
        space_spec(Dict({"a": Tuple((space,))}), "the space")


@pytest.mark.parametrize("space", [Dict({"a": VECTOR}), Tuple((VECTOR,))])
def test_composite_actions_are_refused(space: Any) -> None:
    with pytest.raises(ConfigError, match=r"the space is .*actions of one kind.*Wrap"):
        action_spec(space, "the space")


@pytest.mark.parametrize("space", [MultiDiscrete([]), Box(-1, 1, (2, 0)), Box(0, 9, (0,), int)])
def test_actions_in_which_there_is_nothing_to_choose_are_refused(space: Any) -> None:
    with pytest.raises(ConfigError, match=r"the space is .* which has no elements"):
        action_spec(space, "the space")


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (Dict({"a/b": VECTOR, "a": Dict({"b": VECTOR})}), "two parts named 'a/b'"),
        (Dict({"": VECTOR}), "a part without a name"),
        (Dict({}), "no parts"),
        (Tuple((Dict({}),)), "no parts"),
    ],
)
def test_parts_without_a_name_of_their_own_are_refused(space: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        space_spec(space, "the space")
