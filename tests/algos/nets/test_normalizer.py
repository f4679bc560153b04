import math

import numpy as np
import pytest

from fast_core.algos.nets.normalizer import RewardNormalizer, RunningMoments, normalise


def test_moments_merged_by_batches_equal_those_of_all_rows():
    rng = np.random.default_rng(0)
    rows = rng.normal(1e4, [1.0, 50.0, 1e-3], size=(1000, 3))
    moments = RunningMoments(3)
    for part in np.split(rows, [1, 2, 100, 650]):
        assert moments.update(part)
    assert moments.count == 1000
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-7)


def test_moments_before_any_rows_change_nothing():
    moments = RunningMoments(2)
    np.testing.assert_allclose(moments.inverse_std(), 1.0, rtol=1e-7)
    assert (moments.mean == 0).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_rows_that_are_not_finite_never_enter_the_moments(bad):
    moments = RunningMoments(2)
    moments.update(np.ones((4, 2)))
    with np.errstate(invalid="ignore"):
        assert not moments.update(np.array([[1.0, bad], [1.0, 1.0]]))
    assert moments.count == 4 and (moments.mean == 1).all()


def test_normalised_rows_are_centred_scaled_and_clipped():
    mean, inverse = np.array([1.0, 2.0], np.float32), np.array([0.5, 10.0], np.float32)
    rows = np.array([[3.0, 2.1], [1.0, 9.0], [1.0, -9.0]], np.float32)
    got = normalise(rows, mean, inverse, 5.0)
    np.testing.assert_allclose(got, [[1.0, 1.0], [0.0, 5.0], [0.0, -5.0]], rtol=1e-5)
    assert rows[0, 0] == 3.0 and got.dtype == np.float32


def normalizer(shards=2, envs=2, gamma=0.9, limit=10.0):
    return RewardNormalizer(gamma=gamma, limit=limit, shards=shards, envs_per_shard=envs)


def discounted(reward, ended, gamma, carry):
    history = []
    for r, e in zip(reward, ended, strict=True):
        carry = carry * gamma + r
        history.append(carry)
        carry = 0.0 if e else carry
    return history, carry


def test_rewards_are_divided_by_the_deviation_of_discounted_returns():
    rng = np.random.default_rng(0)
    ours, all_returns, carries = normalizer(), [], [0.0] * 4
    for _ in range(3):
        reward = rng.normal(2.0, 3.0, (20, 4)).astype(np.float32)
        ended = rng.random((20, 4)) < 0.2
        got = ours.normalise(reward, ended, (0, 1))
        for n in range(4):
            history, carries[n] = discounted(reward[:, n], ended[:, n], 0.9, carries[n])
            all_returns += history
        expected = reward / math.sqrt(np.var(all_returns) + 1e-8)
        np.testing.assert_allclose(got, np.clip(expected, -10, 10), rtol=1e-5)


def test_running_returns_belong_to_shards_whatever_the_merge_order():
    rng = np.random.default_rng(1)
    reward, ended = rng.normal(size=(5, 4)).astype(np.float32), rng.random((5, 4)) < 0.2
    swap = [2, 3, 0, 1]
    first, second = normalizer(), normalizer()
    first.normalise(reward, ended, (0, 1))
    second.normalise(reward[:, swap], ended[:, swap], (1, 0))
    np.testing.assert_array_equal(first.state_dict()["running"], second.state_dict()["running"])


def test_two_rollouts_of_one_shard_in_a_ticket_continue_each_other():
    rng = np.random.default_rng(2)
    reward, ended = rng.normal(size=(10, 2)).astype(np.float32), np.zeros((10, 2), bool)
    apart, together = normalizer(shards=1), normalizer(shards=1)
    apart.normalise(reward, ended, (0,))
    together.normalise(
        np.hstack([reward[:5], reward[5:]]), np.hstack([ended[:5], ended[5:]]), (0, 0)
    )
    np.testing.assert_array_equal(apart.state_dict()["running"], together.state_dict()["running"])


def test_reward_that_is_not_finite_leaves_the_statistics_alone():
    ours = normalizer()
    ours.normalise(np.ones((3, 4), np.float32), np.zeros((3, 4), bool), (0, 1))
    before = ours.state_dict()
    bad = np.full((3, 4), np.nan, np.float32)
    assert np.isnan(ours.normalise(bad, np.zeros((3, 4), bool), (0, 1))).all()
    after = ours.state_dict()
    np.testing.assert_array_equal(before["running"], after["running"])
    assert before["moments"]["count"] == after["moments"]["count"] == 12


def test_scaled_rewards_are_clipped():
    got = normalizer(limit=0.5).normalise(
        np.array([[9.0, -9.0, 0.0, 0.0]], np.float32), np.zeros((1, 4), bool), (0, 1)
    )
    np.testing.assert_allclose(got, [[0.5, -0.5, 0.0, 0.0]])


def test_state_for_other_environments_keeps_the_moments_and_restarts_the_returns():
    ours = normalizer()
    ours.normalise(np.ones((3, 4), np.float32), np.zeros((3, 4), bool), (0, 1))
    other = normalizer(envs=3)
    other.load_state_dict(ours.state_dict())
    state = other.state_dict()
    assert state["moments"]["count"] == 12
    assert state["running"].shape == (2, 3) and (state["running"] == 0).all()
