from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.algorithm.spec import SpaceSpec
from fast_core.envs.frames import FrameStack

ROW = SpaceSpec(kind="box", shape=(2,), dtype="int64")


def expected_stack(history: list[Any], frames: int) -> list[Any]:
    """The last frames of an episode, its first one repeated before it."""
    return ([history[0]] * frames + history)[-frames:]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=20),
)
def test_a_stack_holds_the_last_frames_of_the_same_episode(
    frames: int, envs: int, starts: list[list[bool]]
) -> None:
    stack = FrameStack(envs, ROW, frames)
    episodes: list[list[Any]] = [[] for _ in range(envs)]
    for step, marks in enumerate(starts):
        began = np.array(marks[:envs]) | (step == 0)
        rows = np.arange(envs * 2).reshape(envs, 2) + 100 * step
        for env in range(envs):
            episodes[env] = [] if began[env] else episodes[env]
            episodes[env].append(rows[env].tolist())
        stack.push(rows, began)
        for env in range(envs):
            assert stack.array[env].tolist() == expected_stack(episodes[env], frames)
            assert stack.age[env] == min(len(episodes[env]), frames) - 1


@pytest.mark.parametrize("frames", [255, 256])
def test_the_age_of_the_deepest_stack_fits(frames: int) -> None:
    stack = FrameStack(1, ROW, frames)
    for step in range(600):
        stack.push(np.full((1, 2), step), np.array([step == 0]))
        assert stack.age[0] == min(step, frames - 1)
