import numpy as np
import pytest

from fast_core.algos.rollouts.returns import generalized_advantages


def advantages(reward, value, next_value, terminated, truncated, gamma, lam):
    return generalized_advantages(
        np.asarray(reward),
        np.asarray(value),
        np.asarray(next_value),
        np.asarray(terminated, bool),
        np.asarray(truncated, bool),
        gamma=gamma,
        gae_lambda=lam,
    )


def test_time_limit_at_true_value_has_no_temporal_difference_error():
    # Reward 1 for ever is worth 100 at gamma .99; a limit of 200 steps must not change that.
    value = np.full((200, 1), 100.0)
    reward, no = np.ones((200, 1)), np.zeros((200, 1), bool)
    end = no.copy()
    end[-1] = True
    truncated = advantages(reward, value, value, no, end, 0.99, 0.95)
    np.testing.assert_allclose(truncated, 0.0, atol=1e-9)
    terminated = advantages(reward, value, value, end, no, 0.99, 0.95)
    assert terminated[-1, 0] == pytest.approx(-99.0)


def test_matches_sum_of_weighted_temporal_differences():
    rng = np.random.default_rng(1)
    gamma, lam, steps, columns = 0.99, 0.9, 17, 50
    reward, value, next_value = rng.normal(size=(3, steps, columns))
    terminated = rng.random((steps, columns)) < 0.15
    truncated = rng.random((steps, columns)) < 0.15
    got = advantages(reward, value, next_value, terminated, truncated, gamma, lam)
    for n in range(columns):
        for t in range(steps):
            expected, weight = 0.0, 1.0
            for k in range(t, steps):
                tail = 0.0 if terminated[k, n] else next_value[k, n]
                expected += weight * (reward[k, n] + gamma * tail - value[k, n])
                if terminated[k, n] or truncated[k, n]:
                    break
                weight *= gamma * lam
            assert got[t, n] == pytest.approx(expected, abs=1e-12)


def test_next_value_of_a_terminated_step_is_never_read():
    got = advantages([[1.0]], [[0.5]], [[np.nan]], [[1]], [[0]], 0.9, 0.8)
    np.testing.assert_allclose(got, [[0.5]])


def test_inputs_are_left_alone_and_dtype_kept():
    reward = np.ones((3, 2), np.float32)
    value = np.full((3, 2), 0.5, np.float32)
    no = np.zeros((3, 2), bool)
    got = generalized_advantages(reward, value, value, no, no, gamma=0.9, gae_lambda=0.9)
    assert got.dtype == np.float32
    assert (reward == 1).all() and (value == 0.5).all()
