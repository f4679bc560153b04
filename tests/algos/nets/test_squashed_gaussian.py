import math

import numpy as np
import pytest
import torch

from fast_core.algos.nets.squashed_gaussian import SquashedGaussian, log_slope


def column(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


def test_log_probability_includes_the_squeeze():
    # u = 0.5 under a unit normal: log N(0.5) - log(1 - tanh(0.5)^2).
    action, log_prob = SquashedGaussian(1).sample(column(0.0, 0.0), column(0.5))
    np.testing.assert_allclose(action, math.tanh(0.5), rtol=1e-6)
    np.testing.assert_allclose(log_prob, -0.80371, atol=1e-5)


@pytest.mark.parametrize("u", [20.0, -20.0])
def test_slope_is_exact_where_tanh_is_saturated(u):
    np.testing.assert_allclose(log_slope(np.float32([u])), -38.6137, rtol=1e-5)


def test_slope_equals_its_definition_where_that_is_exact():
    u = np.linspace(-4, 4, 101)
    expected = np.log1p(-np.square(np.tanh(u)))
    np.testing.assert_allclose(log_slope(u.astype(np.float32)), expected, rtol=1e-4, atol=1e-6)


def test_saturated_actions_have_finite_values_and_gradients():
    distribution = SquashedGaussian(1)
    output = column(30.0, 0.0)
    action, log_prob = distribution.sample(output, column(0.0))
    assert action[0, 0] == 1.0
    gradient = distribution.backward(column(1.0), 0.1)
    assert np.isfinite(log_prob).all() and np.isfinite(gradient).all()
    for extreme in (1.0, -1.0):
        assert np.isfinite(distribution.log_prob(output, column(extreme))).all()


def test_log_probability_of_a_sample_is_that_of_its_action():
    rng = np.random.default_rng(0)
    output = rng.normal(size=(6, 50)).astype(np.float32) * 0.5
    distribution = SquashedGaussian(3)
    action, log_prob = distribution.sample(output, rng.normal(size=(3, 50)).astype(np.float32))
    np.testing.assert_allclose(distribution.log_prob(output, action), log_prob, atol=2e-3)


def test_density_integrates_to_one():
    distribution = SquashedGaussian(1)
    actions = np.linspace(-1, 1, 20001)[1:-1].astype(np.float32)
    output = np.repeat(column(0.3, -0.7), len(actions), axis=1)
    density = np.exp(distribution.log_prob(output, actions[None]).astype(np.float64))
    assert abs(density.sum() * (actions[1] - actions[0]) - 1) < 1e-3


def test_gradient_equals_autograd():
    rng = np.random.default_rng(0)
    output = rng.normal(size=(4, 30)).astype(np.float32) * 1.5
    output[2:, :3] = 2.5  # above the limit of log-deviations: no gradient
    noise = rng.normal(size=(2, 30)).astype(np.float32)
    weight = rng.normal(size=(2, 30)).astype(np.float32)
    distribution = SquashedGaussian(2)
    _, log_prob = distribution.sample(output, noise)
    ours = distribution.backward(weight, 0.3)
    leaf = torch.tensor(output.astype(np.float64), requires_grad=True)
    log_std = leaf[2:].clamp(-20, 2)
    u = leaf[:2] + log_std.exp() * torch.from_numpy(noise)
    slope = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
    density = torch.distributions.Normal(leaf[:2], log_std.exp()).log_prob(u)
    total = (density - slope).sum(0)
    np.testing.assert_allclose(log_prob, total.detach().numpy(), rtol=1e-4, atol=1e-4)
    loss = (torch.from_numpy(weight) * torch.tanh(u)).sum() + 0.3 * total.sum()
    (expected,) = torch.autograd.grad(loss, leaf)
    np.testing.assert_allclose(ours, expected.numpy(), rtol=1e-3, atol=1e-4)
    assert (ours[2:, :3] == 0).all()
