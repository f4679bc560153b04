from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.algorithm.spec import SpaceSpec
from fast_core.envs.stepping.actions import ActionLog

NUMBERS = SpaceSpec(kind="discrete", shape=(), dtype="int64", n=10**6)
VECTORS = SpaceSpec(kind="box", shape=(2,), dtype="float32")


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=5))
def test_the_open_episode_can_be_read_back_whatever_was_dropped(lengths: list[int]) -> None:
    """Environment 0 has episodes of these lengths, environment 1 has one step each."""
    log = ActionLog(2, NUMBERS)
    step = 0
    for length in lengths:
        start = step
        for _ in range(length):
            log.append(np.array([step, -step]), start)
            step += 1
        assert log.since(0, start).tolist() == list(range(start, step))
        assert log.since(1, step - 1).tolist() == [1 - step]
        assert log.since(1, step).tolist() == []
        assert log.rows <= max(lengths) + 2 * 256


def test_memory_is_bounded_by_the_oldest_open_episode() -> None:
    log = ActionLog(1, NUMBERS)
    for step in range(20_000):
        log.append(np.array([step]), max(0, step - 10))
        assert log.rows <= 512


def test_rows_are_copied_and_keep_shape_and_dtype() -> None:
    log = ActionLog(3, VECTORS)
    action = np.ones((3, 2), np.float32)
    log.append(action, 0)
    action[...] = 5
    kept = log.since(2, 0)
    assert (kept.dtype, kept.tolist()) == (np.float32, [[1.0, 1.0]])


@pytest.mark.parametrize("space", [NUMBERS, VECTORS])
def test_an_empty_log_gives_no_actions_of_the_right_shape(space: SpaceSpec) -> None:
    log = ActionLog(3, space)
    assert log.since(0, 0).shape == (0, *space.shape)
    assert log.since(0, 0).dtype == space.dtype


def test_a_cleared_log_begins_at_step_zero_again() -> None:
    log = ActionLog(1, NUMBERS)
    for step in range(600):
        log.append(np.array([step]), step)
    log.clear()
    log.append(np.array([7]), 0)
    assert log.since(0, 0).tolist() == [7]
