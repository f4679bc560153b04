from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.envs.records import EVERYTHING, WrongPart, mismatch, rows_of
from fast_core.envs.spaces import observation_form

DTYPES = ["uint8", "int8", "int64", "float16", "float32", "float64", "bool"]
LEAVES = st.builds(
    lambda shape, dtype: Box(0, 1, tuple(shape), np.dtype(dtype).type),
    st.lists(st.integers(1, 3), max_size=3),
    st.sampled_from(DTYPES),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abcde"), inner, min_size=1, max_size=3).map(Dict),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: Tuple(tuple(parts))),
    ),
    max_leaves=8,
)


def leaves(obs: Any, prefix: str = "") -> dict[str, Any]:
    """Every leaf by its path, found by walking."""
    if isinstance(obs, dict | tuple):
        items = obs.items() if isinstance(obs, dict) else enumerate(obs)
        found: dict[str, Any] = {}
        for key, part in items:
            found |= leaves(part, f"{prefix}/{key}" if prefix else str(key))
        return found
    return {prefix: obs}


@settings(deadline=None, max_examples=60)
@given(SPACES, st.integers(1, 3), st.integers(0, 9))
def test_every_leaf_arrives_at_its_place(space: Any, envs: int, seed: int) -> None:
    space.seed(seed)
    form = observation_form(space, "it")
    array = np.zeros((envs, *form.space.shape), form.space.row_dtype)
    rows = rows_of(array, form.tree)
    given_obs = [space.sample() for _ in range(envs)]
    for row, obs in zip(rows, given_obs, strict=True):
        row[:] = obs
    for place, obs in enumerate(given_obs):
        for name, value in leaves(obs).items():
            stored = (array[name] if name else array)[place]
            assert np.array_equal(stored, value)


def test_a_row_of_a_mask_takes_integers_and_bools_of_any_shape() -> None:
    form = observation_form(Dict({"mask": Box(0, 1, (4,), np.bool_)}), "it")
    array = np.zeros(1, form.space.row_dtype)
    (row,) = rows_of(array, form.tree, "mask")
    for mask in (np.array([[2, 0], [1, 0]], np.int8), [1, 0, 1, 0], np.array([1, 0, 1, 0]) == 1):
        array["mask"] = False
        row[:] = {"mask": mask}
        assert array["mask"].tolist() == [[True, False, True, False]]
    row[:] = {"mask": EVERYTHING}
    assert array["mask"].all()
    for wrong in (np.ones(4, np.float32), np.ones(3, np.bool_), None, "ones"):
        with pytest.raises(ValueError, match="part 'mask' of the observation"):
            row[:] = {"mask": wrong}


@pytest.mark.parametrize(
    ("obs", "said"),
    [
        ({"a": 1, "b": (np.zeros(2), 0)}, r"part 'b/0' .* shape \(2,\) of float64, its space"),
        ({"a": 1.5, "b": (0, 0)}, "part 'a' of the observation is a float, its space declares"),
        ({"a": 1}, r"lacks the keys \['b'\] and has the undeclared keys \[\]"),
        ({"a": 1, "b": (), "c": 1}, r"lacks the keys \[\] and has the undeclared keys \['c'\]"),
        ({"a": 1, "c": 1}, r"lacks the keys \['b'\] and has the undeclared keys \['c'\]"),
        ({"a": 1, "b": (1,)}, r"part 'b' .* is a tuple of 1, its space declares a tuple of 2"),
        ({"a": 1, "b": {0: 1, 1: 1}}, "part 'b' of the observation is a dict, its space"),
        ((1, 1), "the observation is a tuple of 2, its space declares a dict of 2"),
        (np.zeros(2), "the observation is a ndarray, its space declares a dict of 2"),
    ],
)
def test_what_the_space_does_not_declare_is_refused_by_name(obs: Any, said: str) -> None:
    inner = Tuple((Box(0, 1, (2,), np.float32), Discrete(3)))
    form = observation_form(Dict({"a": Discrete(3), "b": inner}), "it")
    (row,) = rows_of(np.zeros(1, form.space.row_dtype), form.tree)
    row[:] = {"a": 1, "b": [np.zeros(2, np.float32), np.int64(2)]}
    with pytest.raises(WrongPart) as caught:
        row[:] = obs
    assert re.search(said, mismatch(obs, form.space, caught.value))
