from __future__ import annotations

import numpy as np
import pytest

from fast_core.algorithm.spec import FieldSpec, SpaceSpec
from fast_core.errors import SegmentError
from fast_core.memory import ReplayLog, replay_fields
from tests.memory.replay_model import FIELDS, Memory, new_log


def test_bytes_per_transition_are_near_the_least_possible() -> None:
    """Single frames of images, and vectors: nothing is stored twice."""
    image = replay_fields(SpaceSpec("box", (84, 84), "uint8"), FieldSpec("action", (), "int64"))
    vector = replay_fields(SpaceSpec("box", (17,), "float32"), FieldSpec("action", (6,), "float32"))
    for fields, least in ((image, 84 * 84 + 8 + 4), (vector, 17 * 4 + 6 * 4 + 4)):
        per_row = ReplayLog.nbytes(fields, 10_000, 10) / 100_000
        assert per_row < 1.02 * least


def test_two_logs_of_one_default_have_what_they_declare(memory: Memory) -> None:
    """RB-13."""
    for envs in (4, 8):
        log = new_log(memory, 100, envs)
        assert (log.capacity, log.envs) == (100, envs)
        for step in range(200):
            flags = np.zeros(envs, bool)
            obs, ints = np.full((envs, 2), step, np.float64), np.zeros(envs, np.int64)
            log.append(obs, ints, np.zeros(envs, np.float32), flags, flags)
        assert log.published() == (200,) * envs
        assert log.native.spans() == [(100, 200)] * envs
        assert log.native.stride == 16 + 8 + 4 + 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("obs", np.zeros((2, 2), np.float32)),
        ("obs", np.zeros((2, 3))),
        ("obs", np.zeros((2, 4))[:, ::2]),
        ("action", np.zeros(2, np.int32)),
        ("reward", np.zeros(2)),
        ("terminated", np.zeros(2, np.uint8)),
        ("final_obs", np.zeros((2, 2), np.float32)),
    ],
)
def test_nothing_is_converted(memory: Memory, name: str, value: np.ndarray) -> None:
    """RB-13."""
    log = new_log(memory, 10, 2)
    given = {
        "obs": np.zeros((2, 2)),
        "action": np.zeros(2, np.int64),
        "reward": np.zeros(2, np.float32),
        "terminated": np.zeros(2, bool),
        "truncated": np.zeros(2, bool),
        "final_obs": np.zeros((2, 2)),
    }
    log.append(**given)
    with pytest.raises(SegmentError, match=f"replay column '{name}' takes contiguous rows"):
        log.append(**{**given, name: value})
    assert log.published() == (1, 1)


def test_misfits_are_refused_and_nothing_is_stored(memory: Memory) -> None:
    log = new_log(memory, 10, 2)
    flags = np.zeros(2, bool)
    columns = (np.zeros((2, 2)), np.zeros(2, np.int64), np.zeros(2, np.float32))
    with pytest.raises(SegmentError, match="final observation is missing"):
        log.append(*columns, ~flags, flags)
    with pytest.raises(SegmentError, match="environments 1 to 2; the replay log has 0 to 1"):
        log.append(*columns, flags, flags, first=1)
    with pytest.raises(SegmentError, match="exactly"):
        log.append(columns[0][:1], *columns[1:], flags, flags)
    assert log.published() == (0, 0)


def test_logs_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SegmentError, match="columns of a replay log begin with"):
        ReplayLog.nbytes(FIELDS[1:], 10, 2)
    with pytest.raises(SegmentError, match="capacity"):
        ReplayLog.nbytes(FIELDS, 0, 2)


def test_appender_appends_what_its_arrays_hold_when_it_is_called(memory: Memory) -> None:
    """Twice, with other values; as `append` does it step by step."""
    fields, rng = FIELDS, np.random.default_rng(4)
    regions = [memory(ReplayLog.nbytes(fields, 60, 2)) for _ in range(2)]
    ours, theirs = (ReplayLog.create(region, fields, 60, 2) for region in regions)
    obs, final = np.zeros((5, 2, 2)), np.zeros((5, 2, 2))
    action, reward = np.zeros((5, 2), np.int64), np.zeros((5, 2), np.float32)
    terminated, truncated = np.zeros((5, 2), bool), np.zeros((5, 2), bool)
    append = ours.appender(obs, action, reward, terminated, truncated, final)
    for _ in range(3):
        for array in (obs, final, reward):
            array[...] = rng.random(array.shape)
        for flags in (terminated, truncated):
            flags[...] = rng.random(flags.shape) < 0.3
        action[...] = rng.integers(0, 9, action.shape)
        append()
        for row in zip(obs, action, reward, terminated, truncated, final, strict=True):
            theirs.append(*row)
    assert ours.published() == theirs.published()
    assert min(ours.published()) > 15
    assert bytes(regions[0]) == bytes(regions[1])


def test_appender_converts_nothing(memory: Memory) -> None:
    log = new_log(memory, 10, 2)
    flags, ints = np.zeros((5, 2), bool), np.zeros((5, 2), np.int64)
    obs = np.zeros((5, 2, 2))
    given = [obs, ints, np.zeros((5, 2), np.float32), flags, flags, obs]
    narrow = np.zeros((5, 2, 2), np.float32)
    wrongs = ((0, np.zeros((5, 2, 3))), (1, np.zeros((5, 2))), (3, ints), (4, ints), (5, narrow))
    for place, wrong in wrongs:
        misfit = [wrong if k == place else array for k, array in enumerate(given)]
        with pytest.raises(SegmentError, match="takes contiguous rows"):
            log.appender(*misfit)
