import math

import numpy as np
import pytest
import torch

from tests.algos.replay_cases import (
    BACKENDS,
    Oracle,
    as_tensors,
    box_environment,
    make_batch,
    make_config,
    make_learner,
)


def trained(config, environment, steps=2, **setup):
    """A learner whose target networks are no longer the online ones."""
    learner = make_learner(config, environment, **setup)
    for step in range(steps):
        learner.update(make_batch(environment, seed=100 + step))
    return learner


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("critics", [1, 2, 3])
def test_gradient_equals_autograd(backend, critics):
    environment = box_environment()
    config = make_config("sac", backend=backend, critics=critics, target_rate=0.3)
    learner = trained(config, environment)
    batch, oracle = make_batch(environment), Oracle(learner)
    obs, action, reward, discount, next_obs, weight = as_tensors(batch)
    log_alpha = oracle.leaves["temperature"]
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        next_action, next_log_prob = oracle.squashed(oracle.mlp("policy", next_obs)[0])
        x = torch.cat([next_obs, next_action], 1)
        next_value = oracle.mlp("critics", x, target=True)[:, :, 0].min(0).values
        target = reward + discount * (next_value - alpha * next_log_prob)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))[:, :, 0]
    critic_loss = 0.5 * (weight * (value - target).square()).mean(1).sum()
    own, log_prob = oracle.squashed(oracle.mlp("policy", obs)[0])
    own_value = oracle.mlp("critics", torch.cat([obs, own], 1), fixed=True)[:, :, 0]
    policy_loss = (alpha * log_prob - own_value.min(0).values).mean()
    target_entropy = -2.0  # minus the number of actions
    temperature_loss = -(log_alpha * (log_prob.detach() + target_entropy)).mean()
    expected = oracle.gradient(critic_loss + policy_loss + temperature_loss)
    ours = learner.gradient(batch)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)
    report = learner.apply(ours)
    error = (value - target).abs().mean(0).detach().numpy()
    np.testing.assert_allclose(report.priority, error, rtol=1e-4, atol=1e-5)
    assert report.metrics["critic_loss"] == pytest.approx(critic_loss.item() / critics, rel=1e-4)
    assert report.metrics["policy_loss"] == pytest.approx(policy_loss.item(), rel=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_redq_takes_the_least_of_a_random_subset_and_follows_the_mean(backend):
    environment = box_environment()
    learner = trained(make_config("redq", backend=backend), environment)
    subsets = set()
    for seed in range(30):
        batch, oracle = make_batch(environment, seed=seed), Oracle(learner)
        obs, _, reward, discount, next_obs, _ = as_tensors(batch)
        with torch.no_grad():
            alpha = oracle.leaves["temperature"].exp()
            next_action, log_prob = oracle.squashed(oracle.mlp("policy", next_obs)[0])
            chosen = oracle.rng.choice(4, 2, replace=False)
            x = torch.cat([next_obs, next_action], 1)
            values = oracle.mlp("critics", x, target=True)[chosen, :, 0]
            target = reward + discount * (values.min(0).values - alpha * log_prob)
            value = oracle.mlp("critics", torch.cat([obs, torch.from_numpy(batch.action)], 1))
        subsets.add(tuple(sorted(chosen)))
        own, log_prob = oracle.squashed(oracle.mlp("policy", obs)[0])
        mean = oracle.mlp("critics", torch.cat([obs, own], 1), fixed=True).mean()
        expected = oracle.gradient(alpha * log_prob.mean() - mean)
        ours = learner.gradient(batch).copy()
        policy = learner._layout.groups["policy"].place
        np.testing.assert_allclose(ours[policy], expected[policy], rtol=1e-3, atol=2e-5)
        error = (value[:, :, 0] - target).abs().mean(0).numpy()
        np.testing.assert_allclose(learner.apply(ours).priority, error, rtol=1e-3, atol=1e-4)
    assert len(subsets) == 6, "every pair of four critics is drawn"


@pytest.mark.parametrize(("log_prob", "rises"), [(-1.0, False), (3.0, True)])
def test_temperature_moves_in_the_right_direction(log_prob, rises):
    environment = box_environment(low=(-1.0, -1.0), high=(1.0, 1.0))
    learner = make_learner(make_config("sac", target_entropy=-2.0), environment)
    temperature = learner._temperature
    before = temperature.value
    temperature.differentiate(log_prob)
    temperature.step()
    assert (temperature.value > before) == rises


def test_temperature_step_moves_nothing_else():
    environment = box_environment()
    learner = trained(make_config("sac"), environment)
    before = learner.state_dict()
    learner._temperature.differentiate(5.0)
    learner._temperature.step()
    after = learner.state_dict()
    different = [
        name
        for name, array in before["parameters"].items()
        if (array != after["parameters"][name]).any()
    ]
    assert different == ["temperature"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_policy_gradient_does_not_depend_on_the_temperatures_optimizer(backend):
    """With and without a learned temperature, at the same value: the same policy gradient."""
    environment = box_environment()
    batch = make_batch(environment)
    gradients = []
    for changes in ({"initial_temperature": 0.3}, {"temperature": 0.3}):
        learner = make_learner(make_config("sac", backend=backend, **changes), environment)
        gradients.append(learner.gradient(batch).copy())
    np.testing.assert_array_equal(gradients[0][:-1], gradients[1][:-1])
    assert gradients[0][-1] != 0.0 and gradients[1][-1] == 0.0


def test_fixed_temperature_stays():
    environment = box_environment()
    learner = trained(make_config("sac", temperature=0.2), environment, steps=5)
    assert learner.state_dict()["parameters"]["temperature"] == np.float32(math.log(0.2))


def test_policy_delay_counts_steps():
    environment = box_environment()
    learner = make_learner(make_config("sac", policy_delay=3), environment)
    moved = []
    for step in range(6):
        before = learner.state_dict()["parameters"]
        learner.update(make_batch(environment, seed=step))
        after = learner.state_dict()["parameters"]
        moved.append(
            tuple((before[n] != after[n]).any() for n in ("policy.0.weight", "temperature"))
        )
    assert moved == [(False, False), (False, False), (True, True)] * 2


def test_bf16_follows_fp32():
    environment = box_environment()
    config = make_config("sac", hidden_sizes=(64, 64), learning_rate=1e-4)
    wide, narrow = (
        make_learner(config, environment, precision=precision) for precision in ("fp32", "bf16")
    )
    batch = make_batch(environment, rows=64)
    ours, theirs = narrow.gradient(batch), wide.gradient(batch)
    assert np.linalg.norm(ours - theirs) < 0.05 * np.linalg.norm(theirs)
    assert ours.dtype == np.float32
    assert {p.dtype for p in narrow.policy_parameters()} == {np.dtype(np.float32)}
