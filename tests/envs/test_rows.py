from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.envs.records import mismatch
from fast_core.envs.rows import (
    Observations,
    as_ends,
    as_reward,
    fits_float32,
    fitting_rewards,
    rewards_fit,
    store_rewards,
)

SHAPES = [(), (3,), (2, 3), (5000,)]
ROWS = st.lists(st.floats(), min_size=1, max_size=6)


def observations(envs: int, space: SpaceSpec) -> Observations:
    action = SpaceSpec(kind="discrete", shape=(), dtype="int64", n=2)
    return Observations(envs, EnvironmentSpec(id="Rows-v0", observation=space, action=action))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float16", 60000.0),  # these overflow when squared
        ("float32", 3e38),
        ("float64", -1e300),
        ("float16", np.inf),
        ("float32", -np.inf),
        ("float64", np.nan),
    ],
)
def test_values_that_are_not_finite_are_found_whatever_their_size(
    shape: tuple[int, ...], dtype: str, value: float
) -> None:
    obs = observations(2, SpaceSpec(kind="box", shape=shape, dtype=dtype))
    obs.array[1] = value
    expected = bool(np.isfinite(value))
    assert obs.finite() is expected
    assert (obs.finite_row(0), obs.finite_row(1)) == (True, expected)
    assert obs.finite_rows().tolist() == [True, expected]


CHOICES = {
    "discrete": SpaceSpec("discrete", (), "int64", n=3, start=-1),
    "large": SpaceSpec("discrete", (), "int64", n=3, start=1 << 62),
    "bytes": SpaceSpec("discrete", (), "int8", n=256, start=-128),
    "several": SpaceSpec(
        "multi_discrete", (2, 2), "int32", counts=(2, 3, 4, 5), starts=(0, 1, 2, -9)
    ),
    "unsigned": SpaceSpec("multi_discrete", (2,), "uint8", counts=(256, 2)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices_outside_of_their_space_are_found_wherever_they_are(name: str) -> None:
    """Checked against every number about the bounds, one after the other."""
    space = CHOICES[name]
    obs, (first, last) = observations(3, space), space.choices
    limits = np.iinfo(space.row_dtype)
    for at in np.ndindex(space.shape):
        low, high = int(first[at]), int(last[at])
        for value in {low, high, low - 1, high + 1, limits.min, limits.max}:
            if not limits.min <= value <= limits.max:
                continue
            obs.array[...] = first
            obs.array[(1, *at)] = value
            found = obs.outside()
            row = obs.array[1].copy() if space.shape else obs.array[1]
            if low <= value <= high:
                assert found is None
                obs.rows[1][:] = row
                continue
            assert found is not None and found[0] == 1
            assert f"is {value}" in found[1] and f"from {low} to {high}" in found[1]
            with pytest.raises(ValueError, match=f"is {value}.* from {low} to {high}"):
                obs.rows[1][:] = row
            obs.unchecked[1][:] = row


@pytest.mark.parametrize(
    ("shape", "obs"),
    [
        ((), np.zeros(1, np.float32)),
        ((), 1j),
        ((2,), np.zeros(2)),
        ((2,), np.zeros((1, 2), np.float32)),
        ((2,), np.zeros(1, np.float32)),
        ((2,), 0.0),
        ((2, 2), np.zeros((2, 2))),
        ((2, 2), np.zeros(2, np.float32)),
        ((2, 2), [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_a_row_takes_its_own_shape_and_dtype_only(shape: tuple[int, ...], obs: object) -> None:
    space = SpaceSpec(kind="box", shape=shape, dtype="float32")
    row = observations(2, space).rows[1]
    row[:] = np.ones(shape, np.float32)
    with pytest.raises((ValueError, TypeError)):
        row[:] = obs
    assert str(shape) in mismatch(obs, space)


def test_opposite_infinities_are_found() -> None:
    obs = observations(1, SpaceSpec(kind="box", shape=(2,), dtype="float32"))
    obs.array[0] = np.inf, -np.inf
    assert not obs.finite()


@pytest.mark.parametrize("value", [1, 0, 1.0, 0.0, np.True_, np.int8(0), np.ones(1), np.array(0)])
def test_an_end_in_any_form_is_true_or_false(value: object) -> None:
    told = as_ends(value, False), as_ends(True, value)
    assert told == ((bool(value), False), (True, bool(value)))
    assert {type(each) for pair in told for each in pair} == {bool}


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_always_finite(shape: tuple[int, ...]) -> None:
    obs = observations(2, SpaceSpec(kind="box", shape=shape, dtype="uint8"))
    obs.array[...] = 255
    assert (obs.finite(), obs.finite_row(1)) == (True, True)
    assert obs.finite_rows().tolist() == [True, True]


@given(ROWS)
@example([1e30, -3e38])
@example([1.0, 3.5e38])
def test_a_reward_fits_if_it_is_finite_as_a_float32(values: list[float]) -> None:
    with np.errstate(over="ignore"):
        expected = np.isfinite(np.array(values).astype(np.float32))
    limit = float(np.finfo(np.float32).max)
    expected &= np.abs(values) <= limit  # rounding down to the largest is not wanted
    rewards = np.array(values)
    assert fitting_rewards(rewards).tolist() == expected.tolist()
    assert rewards_fit(rewards) == expected.all()
    assert [fits_float32(value) for value in values] == expected.tolist()


@pytest.mark.parametrize("value", [2, 2.0, True + 1, np.float32(2), np.array(2), np.array([[2.0]])])
def test_a_reward_is_any_one_number(value: object) -> None:
    assert as_reward(value) == 2.0


@pytest.mark.parametrize("value", [np.zeros(2), [], None, "2", object()])
def test_a_reward_that_is_not_one_number_is_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError), match="must be"):
        as_reward(value)


def test_rewards_of_different_forms_are_stored_together() -> None:
    out = np.zeros(4)
    assert store_rewards([1, np.array([2.0]), np.float32(3), np.array(4)], out) is None
    assert out.tolist() == [1, 2, 3, 4]
    assert store_rewards([1.0, 2.0, np.zeros(3), 4.0], out) == 2
    assert store_rewards(np.array([1, 2, 3, 5], object), out) is None
    assert out.tolist() == [1, 2, 3, 5]


@pytest.mark.parametrize("value", [None, "2.5", b"2.5", "nan", 1j, object()])
def test_what_is_no_number_is_no_reward_beside_numbers_either(value: object) -> None:
    for values in ([1.0, value], [np.float64(1.0), value], np.array([1.0, value], object)):
        assert store_rewards(values, np.zeros(2)) == 1
