import tracemalloc

import numpy as np
import pytest

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.images import find_images
from fast_core.algos.nets.observations import (
    ImageTable,
    ObservationEncoder,
    ObservationTable,
    encoded_size,
)

BOX = SpaceSpec("box", (2, 2), "float64", low=(-1.0,), high=(1.0,))
CHOICE = SpaceSpec("discrete", (), "int32", n=3, start=5)
CHOICES = SpaceSpec("multi_discrete", (2,), "int64", counts=(2, 3), starts=(0, -1))
BITS = SpaceSpec("multi_discrete", (2, 2), "int8", counts=(2, 2, 2, 2))
CAMERA = SpaceSpec("box", (16, 20, 3), "uint8", low=(0.0,), high=(255.0,))
MASK = SpaceSpec("box", (4,), "bool", low=(0.0,), high=(1.0,))
ACTION = SpaceSpec("discrete", (), "int64", n=4)


def environment(*parts, mask=None):
    return EnvironmentSpec("Test-v0", SpaceSpec.composite(parts), ACTION, action_mask=mask)


def rows(env, count):
    return np.zeros(count, env.observation.row_dtype)


def test_parts_become_numbers_in_their_order_without_images_and_mask():
    env = environment(
        ("box", BOX), ("camera", CAMERA), ("choice", CHOICE), ("mask", MASK),
        ("choices", CHOICES), ("bits", BITS), mask="mask",
    )  # fmt: skip
    encoder = ObservationEncoder(env, find_images(env))
    obs = rows(env, 2)
    obs["box"][1] = [[1, 2], [3, 4]]
    obs["choice"] = [5, 7]
    obs["choices"] = [[0, -1], [1, 1]]
    obs["bits"][1] = [[0, 1], [1, 0]]
    obs["mask"] = [[1, 1, 1, 1], [0, 1, 0, 0]]
    obs["camera"][1] = 9
    got = encoder.vector(obs)
    assert got.dtype == np.float32
    assert got.tolist() == [
        [*[0, 0, 0, 0], *[1, 0, 0], *[1, 0, 1, 0, 0], *[1, 0, 1, 0, 1, 0, 1, 0]],
        [*[1, 2, 3, 4], *[0, 0, 1], *[0, 1, 0, 0, 1], *[1, 0, 0, 1, 0, 1, 1, 0]],
    ]
    assert encoder.size == encoded_size(env, find_images(env)) == 20
    assert encoder.mask(obs).tolist() == [[True] * 4, [False, True, False, False]]
    assert encoder.mask_size == 4
    (camera,) = encoder.images(obs)
    assert camera.shape == (2, 1, 16, 20, 3) and (camera[1] == 9).all()
    assert np.shares_memory(camera, obs), "images are never copied to be looked at"


@pytest.mark.parametrize("space", [
    SpaceSpec("discrete", (), "int64", n=10_000),
    SpaceSpec("multi_discrete", (1,), "int64", counts=(10_000,)),
])  # fmt: skip
def test_many_choices_need_no_table_of_each_by_each(space):
    env = EnvironmentSpec("Test-v0", space, ACTION)
    tracemalloc.start()
    try:
        got = ObservationEncoder(env, ()).vector(np.full((2, *space.shape), 9_999))
        assert tracemalloc.get_traced_memory()[1] < 1e6, "that table has 400 MB"
    finally:
        tracemalloc.stop()
    assert np.flatnonzero(got).tolist() == [9_999, 19_999]


@pytest.mark.parametrize("dtype", ["int8", "bool", "float32"])
def test_whatever_is_not_zero_is_allowed(dtype):
    mask = SpaceSpec("box", (4,), dtype, low=(0.0,), high=(1.0,))
    env = environment(("x", CHOICE), ("allowed", mask), mask="allowed")
    obs = rows(env, 1)
    obs["x"], obs["allowed"] = 5, [[0, 1, 0, 1]]
    got = ObservationEncoder(env, ()).mask(obs)
    assert got.dtype == np.bool_ and got.tolist() == [[False, True, False, True]]


def test_image_alone_leaves_no_numbers():
    env = EnvironmentSpec("Test-v0", CAMERA, ACTION)
    encoder = ObservationEncoder(env, find_images(env))
    assert encoder.vector(np.zeros((5, 16, 20, 3), np.uint8)).shape == (5, 0)
    assert encoder.mask(np.zeros((5, 16, 20, 3), np.uint8)) is None


def test_plain_box_of_floats_is_not_copied():
    env = EnvironmentSpec("Test-v0", SpaceSpec("box", (3,), "float32"), ACTION)
    obs = np.ones((4, 3), np.float32)
    assert np.shares_memory(ObservationEncoder(env, ()).vector(obs), obs)


def test_rows_of_a_table_share_its_memory():
    table = ObservationTable(
        np.arange(6, dtype=np.float32)[:, None],
        (ImageTable(np.zeros((9, 2, 2), np.uint8), np.arange(12).reshape(6, 2)),),
        np.ones((6, 2), bool),
    )
    part = table.rows(2, 5)
    assert len(part) == 3 and part.vector[0, 0] == 2
    assert part.images[0].index.tolist() == [[4, 5], [6, 7], [8, 9]]
    assert part.images[0].frames is table.images[0].frames
    assert np.shares_memory(part.mask, table.mask)
    assert table.finite
    table.vector[0] = np.nan
    assert not table.finite and part.finite


@pytest.mark.parametrize(
    ("dtype", "offset", "spread"),
    [
        *[("float64", 5.4e6, 0.25), ("float64", 1.7e9, 16.0), ("float64", -1e15, 64.0)],
        *[("int32", 2**31 - 100, 64), ("uint32", 2**32 - 100, 64), ("int64", 2**60, 64)],
        *[("int64", -(2**63) + 100, 64), ("uint64", 2**63, 64), ("uint64", 2**64 - 100, 64)],
    ],
)
def test_numbers_that_float32_cannot_tell_apart_are_counted_from_an_origin(dtype, offset, spread):
    env = EnvironmentSpec("Test-v0", SpaceSpec("box", (2, 1), dtype, low=(0.0,)), ACTION)
    apart = np.random.default_rng(0).integers(-64, 65, (500, 2)) * (spread / 64)
    own = int if dtype[0] != "f" else float
    obs = np.array([[own(offset) + own(x) for x in row] for row in apart], dtype).reshape(500, 2, 1)
    encoder = ObservationEncoder(env, ())
    origin = encoder.find_origin(*encoder.spread(obs))
    assert encoder.wide and origin[0].all()
    encoder.centre(origin)
    seen = encoder.vector(obs)
    assert seen.dtype == np.float32
    # From number to number, as where they are counted from is near the mean, not at it.
    np.testing.assert_allclose(np.diff(seen, axis=0), np.diff(apart, axis=0), atol=spread * 1e-4)
    variance = encoder.spread(obs)[1]
    np.testing.assert_allclose(variance, apart.var(axis=0), rtol=1e-6)
    encoder.centre(np.zeros_like(origin))
    np.testing.assert_array_equal(encoder.vector(obs), obs.reshape(500, 2).astype(np.float32))


@pytest.mark.parametrize("space", [
    SpaceSpec("box", (2,), "float32", low=(0.0,)), SpaceSpec("box", (2,), "int16", low=(0.0,)),
    SpaceSpec("discrete", (), "int64", n=3), SpaceSpec("box", (2,), "float64", low=(0.0,)),
])  # fmt: skip
def test_numbers_that_float32_can_tell_apart_are_counted_from_zero(space):
    encoder = ObservationEncoder(EnvironmentSpec("Test-v0", space, ACTION), ())
    assert encoder.wide == (space.dtype == "float64")
    obs = np.random.default_rng(0).integers(0, 3, (9, *space.shape)).astype(space.dtype)
    assert not encoder.find_origin(*encoder.spread(obs)).any()


@pytest.mark.parametrize(("steps", "far"), [(64, True), (200, True), (300, False)])
def test_a_deviation_of_few_steps_of_float32_is_far(steps, far):
    encoder = ObservationEncoder(
        EnvironmentSpec("Test-v0", SpaceSpec("box", (1,), "float64", low=(0.0,)), ACTION), ()
    )
    apart = steps * np.spacing(np.float32(1e6)) * np.array([[-1.0], [1.0]])
    spread = encoder.spread(1e6 + apart[:1], 1e6 + apart[1:])
    assert encoder.find_origin(*spread).any() == far


@pytest.mark.parametrize(
    ("dtype", "value", "far"),
    [
        *[("float64", 40.0, False), ("float64", 5.4e6, True)],
        *[("int64", 5, False), ("int64", 2**15, False), ("int64", 2**40, True)],
    ],
)
def test_a_number_that_never_differed_is_far_where_float32_would_not_see_it_differ(
    dtype, value, far
):
    space = SpaceSpec("box", (1,), dtype, low=(0.0,))
    encoder = ObservationEncoder(EnvironmentSpec("Test-v0", space, ACTION), ())
    origin = encoder.find_origin(*encoder.spread(np.full((9, 1), value, dtype)))
    assert origin.any() == far
