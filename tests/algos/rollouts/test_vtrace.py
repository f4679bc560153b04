import numpy as np
import pytest

from fast_core.algos.rollouts.returns import generalized_advantages
from fast_core.algos.rollouts.vtrace import drifted, effective_sample_size, vtrace


def rollout(rng, steps=19, columns=40, ratio=0.7):
    """Log ratios, rewards, values, successors' values and mixed ends."""
    log_ratio = rng.normal(0, ratio, (steps, columns))
    reward, value, final = rng.normal(size=(3, steps, columns))
    terminated, truncated = rng.random((2, steps, columns)) < 0.12
    truncated &= ~terminated
    next_value = np.concatenate([value[1:], final[-1:]])
    next_value = np.where(terminated | truncated, final, next_value)
    return log_ratio, reward, value, next_value, terminated, truncated


def by_the_paper(log_ratio, reward, value, next_value, terminated, truncated, gamma, lam, rho, c):
    """The sum of equation 1, one row at a time; and the advantage with the successor's target."""
    steps, columns = reward.shape
    target, advantage = np.zeros((2, steps, columns))
    ratio = np.exp(log_ratio)
    for n in range(columns):
        for t in range(steps):
            total, reach = value[t, n], 1.0
            for k in range(t, steps):
                tail = 0.0 if terminated[k, n] else next_value[k, n]
                error = reward[k, n] + gamma * tail - value[k, n]
                total += reach * min(rho, ratio[k, n]) * error
                if terminated[k, n] or truncated[k, n]:
                    break
                reach *= gamma * lam * min(c, ratio[k, n])
            target[t, n] = total
        for t in range(steps):
            tail = 0.0 if terminated[t, n] else next_value[t, n]
            if t + 1 < steps and not (terminated[t, n] or truncated[t, n]):
                tail += lam * (target[t + 1, n] - next_value[t, n])
            advantage[t, n] = reward[t, n] + gamma * tail - value[t, n]
    return target, advantage


@pytest.mark.parametrize(
    ("gamma", "lam", "rho", "c"),
    [(0.99, 0.95, 1.0, 1.0), (0.97, 1.0, 1.0, 1.0), (0.9, 0.8, 2.5, 1.3), (1.0, 1.0, 0.4, 0.2)],
)
def test_matches_the_sum_of_the_paper_on_rollouts_with_mixed_ends(gamma, lam, rho, c):
    for seed in range(5):
        data = rollout(np.random.default_rng(seed))
        got = vtrace(*data, gamma=gamma, gae_lambda=lam, rho_clip=rho, c_clip=c)
        target, advantage = by_the_paper(*data, gamma, lam, rho, c)
        np.testing.assert_allclose(got.target, target, atol=1e-10)
        np.testing.assert_allclose(got.advantage, advantage, atol=1e-10)
        np.testing.assert_allclose(got.weight, np.minimum(rho, np.exp(data[0])), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_equals_generalised_advantages_where_the_policy_is_the_one_that_acted(dtype):
    for seed in range(20):
        _, *outcomes = rollout(np.random.default_rng(seed))
        outcomes = [x.astype(dtype) if x.dtype == float else x for x in outcomes]
        got = vtrace(np.zeros_like(outcomes[0]), *outcomes, gamma=0.98, gae_lambda=0.9)
        advantage = generalized_advantages(*outcomes, gamma=0.98, gae_lambda=0.9)
        np.testing.assert_allclose(got.advantage, advantage, atol=1e-6)
        np.testing.assert_allclose(got.target, advantage + outcomes[1], atol=1e-6)
        assert (got.weight == 1).all()
        assert got.target.dtype == got.advantage.dtype == got.weight.dtype == dtype


def test_value_after_termination_is_never_read_and_infinite_ratios_are_clipped():
    no, end = np.zeros((1, 1), bool), np.ones((1, 1), bool)
    one, half = np.ones((1, 1)), np.full((1, 1), 0.5)
    got = vtrace(1000 * one, one, half, np.nan * one, end, no, gamma=0.9, gae_lambda=0.8)
    assert (got.target, got.advantage, got.weight) == (1.0, 0.5, 1.0)


def test_effective_sample_size_by_hand():
    assert effective_sample_size(np.zeros((4, 2))) == 1.0
    assert effective_sample_size(np.full(9, 800.0)) == 1.0, "a factor that all have"
    weights = np.array([1.0, 2.0, 3.0])
    assert effective_sample_size(np.log(weights)) == pytest.approx(36 / (3 * 14))
    assert effective_sample_size(np.array([0.0, -1000.0, -1000.0])) == pytest.approx(1 / 3)
    assert effective_sample_size(np.empty(0)) == 1.0
    assert effective_sample_size(np.empty(0), rows=3) == 0.0
    assert effective_sample_size(np.log(weights), rows=6) == pytest.approx(36 / (6 * 14))


def test_rows_that_would_push_a_drifted_policy_on_are_those_by_hand():
    ratio = np.array([1.6, 1.6, 0.4, 0.4, 1.4, 0.6, 1.0])
    advantage = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, 5.0])
    found = drifted(np.log(ratio), advantage, 0.5)
    assert found.tolist() == [True, False, False, True, False, False, False]
    assert not drifted(np.log(ratio), advantage, None).any()
