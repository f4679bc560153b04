import numpy as np
import pytest
import torch
from torch.nn import functional

from fast_core.algos.replay.dsac import bounded, distribution_gradient, running_average, softplus
from tests.algos.replay_cases import (
    BACKENDS,
    Oracle,
    as_tensors,
    box_environment,
    constant_networks,
    make_batch,
    make_config,
    make_learner,
)

TAU = 0.1


def trained(name, backend, steps, **changes):
    config = make_config(
        name, backend=backend, policy_delay=1, target_rate=0.3,
        **({"average_rate": TAU} if name == "dsact" else {}), **changes,
    )  # fmt: skip
    environment = box_environment()
    learner = make_learner(config, environment)
    for step in range(steps):
        learner.update(make_batch(environment, seed=100 + step))
    return learner, environment


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("delay", [1, 2])
def test_length_of_the_gradient_leaves_out_the_averages_that_travel_with_it(backend, delay):
    config = make_config("dsact", backend=backend, policy_delay=delay)
    environment = box_environment()
    learner = make_learner(config, environment)
    gradient = learner.gradient(make_batch(environment)).copy()
    numbers = config.layout(environment).groups["averages"].place
    length = np.linalg.norm(np.delete(gradient, numbers))
    assert length < 0.99 * np.linalg.norm(gradient), "or nothing is tested here"
    found = learner.apply(gradient).metrics["gradient_norm"]
    np.testing.assert_allclose(found, length, rtol=1e-5)
    gradient = learner.gradient(make_batch(environment)).copy()
    gradient[numbers] = np.nan
    assert learner.apply(gradient).skipped == 1


def targets(oracle, batch):
    """Of the mean and of a sample, from the target critic with the least mean."""
    _, _, reward, discount, next_obs, _ = as_tensors(batch)
    with torch.no_grad():
        output = oracle.mlp("policy", next_obs, target=True)[0]
        action, log_prob = oracle.squashed(output)
        z = oracle.normal(len(reward)).clamp(-3, 3)
        value = oracle.mlp("critics", torch.cat([next_obs, action], 1), target=True)
        mean, std = value[:, :, 0], functional.softplus(value[:, :, 1])
        least = mean.argmin(0, keepdim=True)
        mean, std = mean.gather(0, least)[0], std.gather(0, least)[0]
        bonus = oracle.leaves["temperature"].exp() * log_prob
        return (
            reward + discount * (mean - bonus),
            reward + discount * (mean + z * std - bonus),
        )


def policy_and_temperature_loss(oracle, batch):
    obs = as_tensors(batch)[0]
    log_alpha = oracle.leaves["temperature"]
    action, log_prob = oracle.squashed(oracle.mlp("policy", obs)[0])
    value = oracle.mlp("critics", torch.cat([obs, action], 1), fixed=True)[:, :, 0]
    policy = (log_alpha.exp().detach() * log_prob - value.min(0).values).mean()
    target_entropy = -2.0
    return policy - (log_alpha * (log_prob.detach() + target_entropy)).mean()


def surrogate(mean, std, y, bounded_sample, weight, scale, offset):
    """The loss whose gradient the papers give, written with what is held fixed detached."""
    m, s = mean.detach(), std.detach()
    slope_mean = (m - y) / (s.square() + offset)
    slope_std = (s.square() - (bounded_sample - m).square()) / (s.pow(3) + offset)
    return (weight * scale * (slope_mean * mean + slope_std * std)).mean(1).sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 3])
def test_gradient_of_dsact_equals_autograd(backend, steps):
    learner, environment = trained("dsact", backend, steps)
    batch, oracle = make_batch(environment), Oracle(learner)
    obs, action, _, _, _, weight = as_tensors(batch)
    y, z = targets(oracle, batch)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))
    mean, std = value[:, :, 0], functional.softplus(value[:, :, 1])
    seen = torch.stack([std.mean(1), std.square().mean(1)], 1).detach()
    old = oracle.leaves["averages"].detach()
    average = seen if steps == 0 else old + TAU * (seen - old)
    bound = 3 * average[:, :1]
    clipped = mean.detach() + torch.minimum(torch.maximum(z - mean.detach(), -bound), bound)
    loss = surrogate(mean, std, y, clipped, weight, average[:, 1:] + 0.1, 0.1)
    expected = oracle.gradient(loss + policy_and_temperature_loss(oracle, batch))
    place = learner._layout.groups["averages"].place
    expected[place] = seen.numpy().ravel()  # statistics travel with the gradients
    ours = learner.gradient(batch)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=3e-5)
    report = learner.apply(ours)
    np.testing.assert_allclose(
        report.priority, (mean - y).abs().mean(0).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    kept = learner.state_dict()["parameters"]["averages"]
    np.testing.assert_allclose(kept, average.numpy(), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("changes", [{}, {"variance_offset": 0.1}], ids=["paper", "offset"])
def test_gradient_of_dsac_equals_autograd(backend, changes):
    learner, environment = trained("dsac", backend, 3, return_bound=0.5, **changes)
    batch, oracle = make_batch(environment), Oracle(learner)
    obs, action, _, _, _, weight = as_tensors(batch)
    _, z = targets(oracle, batch)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))
    assert len(value) == 1
    mean, std = value[:, :, 0], functional.softplus(value[:, :, 1])
    clipped = mean.detach() + (z - mean.detach()).clamp(-0.5, 0.5)
    assert (clipped != z).any()
    loss = surrogate(mean, std, z, clipped, weight, 1.0, changes.get("variance_offset", 0.0))
    expected = oracle.gradient(loss + policy_and_temperature_loss(oracle, batch))
    np.testing.assert_allclose(learner.gradient(batch), expected, rtol=1e-3, atol=3e-5)


def test_gradient_is_that_of_the_likelihood_where_nothing_is_bounded_or_offset():
    """Of minus the log-density, as DSAC derives it."""
    rng = np.random.default_rng(0)
    value = rng.normal(size=(1, 2, 50)).astype(np.float32)
    sample = rng.normal(size=50).astype(np.float32) * 5
    weight, delta = np.ones(50, np.float32), np.zeros_like(value)
    std = softplus(value[:, 1])
    distribution_gradient(
        value, std, sample, sample, weight, delta, bound=np.float32(1e9), scale=None, offset=0.0
    )
    leaf = torch.tensor(value, requires_grad=True)
    normal = torch.distributions.Normal(leaf[:, 0], functional.softplus(leaf[:, 1]))
    (expected,) = torch.autograd.grad(-normal.log_prob(torch.from_numpy(sample)).mean(), leaf)
    np.testing.assert_allclose(delta, expected.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("target", "expected"), [(10.0, 3.0), (-10.0, -3.0), (2.0, 2.0)])
def test_sampled_returns_are_bounded_by_three_average_deviations(target, expected):
    mean, average_std = np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)
    found = bounded(np.float32([target]), mean, np.float32(3) * average_std)
    assert found == expected


def test_running_average_moves_by_its_rate():
    average, seen = np.float32([2.0]), np.float32([1.0])
    np.testing.assert_allclose(running_average(average, seen, 0.005), 1.995, rtol=1e-6)


def test_default_rate_and_bound_are_the_papers():
    config = make_config("dsact")
    assert (config.average_rate, config.bound_deviations, config.policy_delay) == (0.005, 3.0, 2)


@pytest.mark.parametrize("name", ["dsac", "dsact"])
def test_deviation_of_zero_has_a_finite_loss(name):
    environment = box_environment()
    learner = make_learner(make_config(name), environment)
    state = learner.state_dict()
    constant_networks(state, "critics", [[1.0, -200.0]])  # softplus(-200) is 0
    learner.load_state_dict(state)
    gradient = learner.gradient(make_batch(environment))
    assert np.isfinite(gradient).all()
    report = learner.apply(gradient)
    assert report.updates == 1 and report.metrics["value_std"] == 0.0


def test_averages_are_kept_in_the_state_and_only_dsact_has_them():
    learner, _ = trained("dsact", "numpy", 3)
    averages = learner.state_dict()["parameters"]["averages"]
    assert averages.shape == (2, 2) and (averages > 0).all()
    other, _ = trained("dsac", "numpy", 1)
    assert "averages" not in other.state_dict()["parameters"]


def test_averages_follow_what_all_optimizers_saw():
    learner, environment = trained("dsact", "numpy", 1)
    before = learner.state_dict()["parameters"]["averages"]
    gradient = learner.gradient(make_batch(environment))
    gradient[learner._layout.groups["averages"].place] = 5.0  # the mean over optimizers
    learner.apply(gradient)
    after = learner.state_dict()["parameters"]["averages"]
    np.testing.assert_allclose(after, before + TAU * (5.0 - before), rtol=1e-5)


def test_softplus_does_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(softplus(np.float32([-200, 0, 200])), [0, np.log(2), 200])
