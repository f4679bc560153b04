"""What is learned of drawn sequences, against a slow loop and by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fast_core.algorithm import SequenceBatch, Window
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.algos.replay.sequence_targets import going_on, learned_rows, sequence_errors
from fast_core.testing.samples import replayed
from tests.algos.replay_cases import discrete_environment

GAMMA = 0.9


def drawn(window: Window, rows: int = 40, seed: int = 1) -> SequenceBatch:
    config = DQNConfig(
        recurrent="gru",
        sequence_length=window.steps,
        burn_in=window.before,
        n_step=window.after + 1,
    )
    assert config.replay().sequence == window
    batch = replayed(config, discrete_environment(), rows, seed)
    assert isinstance(batch, SequenceBatch)
    return batch


@pytest.mark.parametrize(
    "window", [Window(1), Window(4, 3), Window(3, 0, 2), Window(5, 2, 4)], ids=str
)
def test_targets_are_those_of_a_slow_loop(window: Window) -> None:
    batch, found = drawn(window), []
    rows = learned_rows(batch, window, GAMMA)
    for n, mask in enumerate(batch.mask):
        for t in range(window.before, window.before + window.steps):
            if not mask[t]:
                continue
            reward, k, over = 0.0, 0, False
            while k <= window.after and t + k < len(mask) and mask[t + k]:
                reward += GAMMA**k * float(batch.reward[n, t + k])
                over = bool(batch.terminated[n, t + k])
                k += 1
            found.append((n, t, t + k, reward, 0.0 if over else GAMMA**k))
    wanted = [np.array(column) for column in zip(*found, strict=True)]
    for column, values in zip(rows[:5], wanted, strict=True):
        np.testing.assert_allclose(column, values, rtol=1e-6, atol=1e-6)
    counts = np.bincount(rows.sequence, minlength=len(batch.mask))
    np.testing.assert_array_equal(rows.starts, np.cumsum(counts) - counts)
    assert window.after == 0 or len(np.unique(rows.then - rows.now)) > 1


def test_what_is_remembered_goes_on_but_where_an_episode_begins_late() -> None:
    mask = np.array([[True, True, False], [False, True, True], [False, False, True]])
    expected = [[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]]
    np.testing.assert_array_equal(going_on(mask), expected)


def test_error_of_a_sequence_is_nine_tenths_of_its_greatest_and_a_tenth_of_its_mean() -> None:
    error = np.array([1.0, 3.0, 2.0, 5.0, 0.0, 4.0], np.float32)
    found = sequence_errors(error, np.array([0, 3, 4]))
    np.testing.assert_allclose(found, [0.9 * 3 + 0.1 * 2, 5.0, 0.9 * 4 + 0.1 * 2], rtol=1e-6)
    assert found.dtype == np.float32


def test_rewards_of_rows_that_are_not_there_count_nothing() -> None:
    window = Window(4, 2, 3)
    batch = drawn(window)
    reward = np.where(batch.mask, batch.reward, np.float32(1e6))
    spoilt = dataclasses.replace(batch, reward=reward)
    for ours, theirs in zip(
        learned_rows(batch, window, GAMMA), learned_rows(spoilt, window, GAMMA), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
