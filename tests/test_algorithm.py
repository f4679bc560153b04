from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.algorithm import ActionOutput, ShardRollout

SHAPE = (2,)


def rollout(stack: int, ends: Any, seed: int) -> tuple[ShardRollout, list[list[Any]]]:
    """A rollout of frames with episode ends ``[before + T, B]``, and what was seen at each row.

    Frames are numbered; those before row 0 are of the steps before the rollout.
    """
    before, (total, envs) = stack - 1, ends.shape
    steps = total - before
    frames = np.random.default_rng(seed).integers(0, 255, (total + 1, envs, *SHAPE), np.uint8)
    age = np.zeros((total + 1, envs), np.uint8)
    seen: list[list[Any]] = [[None] * envs for _ in range(total + 1)]
    for env in range(envs):
        episode: list[Any] = []
        for row in range(total + 1):
            if row and ends[row - 1, env]:
                episode = []
            episode.append(frames[row, env])
            age[row, env] = min(len(episode) - 1, before)
            seen[row][env] = ([episode[0]] * stack + episode)[-stack:]
    zeros = np.zeros((steps, envs), np.float32)
    made = ShardRollout(
        shard=0,
        rollout_id=0,
        policy_version=zeros,
        obs=frames[before:],
        action=zeros,
        behaviour_log_prob=zeros,
        reward=zeros,
        terminated=ends[before:],
        truncated=np.zeros_like(ends[before:]),
        final_obs=np.random.default_rng(seed + 1).integers(0, 255, (steps, envs, *SHAPE), np.uint8),
        frames=frames,
        frame_age=age[before:],
    )
    return made, seen[before:]


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 8), st.integers(0, 99), st.data())
def test_rows_are_stacked_as_the_policy_saw_them(
    stack: int, envs: int, steps: int, seed: int, data: st.DataObject
) -> None:
    size = (stack - 1 + steps) * envs
    marks = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    made, seen = rollout(stack, np.array(marks).reshape(-1, envs), seed)
    assert made.stack == stack
    step, env = (index.ravel() for index in np.indices((steps + 1, envs)))
    order = np.random.default_rng(seed).permutation(len(step))
    step, env = step[order], env[order]
    found = made.take_obs(step, env)
    assert found.dtype == np.uint8
    assert np.array_equal(found, [seen[t][b] for t, b in zip(step, env, strict=True)])
    step, env = step[step < steps], env[step < steps]
    expected = [[*seen[t][b][1:], made.final_obs[t, b]] for t, b in zip(step, env, strict=True)]
    assert np.array_equal(made.take_final_obs(step, env), expected)


def test_frame_steps_point_into_the_frames_of_the_same_episode() -> None:
    ends = np.zeros((2 + 4, 1), np.bool_)
    ends[1] = ends[4] = True  # row 0 and row 3 of the rollout begin an episode
    made, _ = rollout(3, ends, 0)
    assert made.frame_steps(np.arange(5), np.zeros(5, np.int64)).tolist() == [
        [2, 2, 2], [2, 2, 3], [2, 3, 4], [5, 5, 5], [5, 5, 6],
    ]  # fmt: skip


def test_rows_that_are_not_stacked_are_copied_as_they_are() -> None:
    made, _ = rollout(2, np.zeros((5, 2), np.bool_), 0)
    plain = ShardRollout(**{**vars(made), "frames": None, "frame_age": None})
    step, env = np.array([0, 3, 4]), np.array([1, 0, 1])
    taken = plain.take_obs(step, env)
    assert plain.stack == 1
    assert np.array_equal(taken, made.obs[step, env])
    final = plain.take_final_obs(step[:2], env[:2])
    assert np.array_equal(final, made.final_obs[step[:2], env[:2]])
    taken[...] = 0
    final[...] = 0
    assert made.obs.any()
    assert made.final_obs.any()


def test_columns_of_a_policy_leave_what_an_answer_unpacks_into() -> None:
    """Policies around another one were written before it could say more."""
    rows = np.zeros(SHAPE)
    for extra in ({}, {"sure": rows}):
        said = ActionOutput(rows, rows, None, extra)
        action, log_prob, state = said
        assert action is log_prob is rows and state is None
        assert said._replace(action=rows + 1).extra is extra
    assert ActionOutput(*said).extra == {}
    for each in (said, ActionOutput(rows, rows)):
        assert pickle.loads(pickle.dumps(each)).extra.keys() == each.extra.keys()
