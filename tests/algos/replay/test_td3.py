import numpy as np
import pytest
import torch

from tests.algos.replay_cases import (
    BACKENDS,
    Oracle,
    as_tensors,
    box_environment,
    changed,
    make_batch,
    make_config,
    make_learner,
)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["td3", "ddpg"])
def test_gradient_equals_autograd(backend, name):
    environment = box_environment()
    # Large noise, so that both of its limits and the box's are reached.
    changes = {"policy_delay": 1, "target_rate": 0.3}
    if name == "td3":
        changes |= {"smoothing_noise": 1.0}
    learner = make_learner(make_config(name, backend=backend, **changes), environment)
    state = learner.state_dict()
    for where in ("parameters", "targets"):
        state[where]["policy.2.weight"] *= 10
    learner.load_state_dict(state)
    for step in range(2):
        learner.update(make_batch(environment, seed=100 + step))
    batch, oracle = make_batch(environment, rows=40), Oracle(learner)
    obs, action, reward, discount, next_obs, weight = as_tensors(batch)
    with torch.no_grad():
        next_action = torch.tanh(oracle.mlp("policy", next_obs, target=True)[0])
        if name == "td3":
            next_action = (next_action + oracle.normal(2, 40).T.clamp(-0.5, 0.5)).clamp(-1, 1)
            assert (next_action.abs() == 1).any()
        x = torch.cat([next_obs, next_action], 1)
        values = oracle.mlp("critics", x, target=True)[:, :, 0]
        assert len(values) == {"td3": 2, "ddpg": 1}[name]
        target = reward + discount * values.min(0).values
    value = oracle.mlp("critics", torch.cat([obs, action], 1))[:, :, 0]
    critic_loss = 0.5 * (weight * (value - target).square()).mean(1).sum()
    own = torch.tanh(oracle.mlp("policy", obs)[0])
    policy_loss = -oracle.mlp("critics", torch.cat([obs, own], 1), fixed=True)[0].mean()
    expected = oracle.gradient(critic_loss + policy_loss)
    ours = learner.gradient(batch)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)
    error = (value - target).abs().mean(0).detach().numpy()
    np.testing.assert_allclose(learner.apply(ours).priority, error, rtol=1e-4, atol=1e-5)


def test_policy_steps_at_every_second_step_of_the_critics():
    environment = box_environment()
    learner = make_learner(make_config("td3"), environment)
    moved = []
    for step in range(1, 11):
        before = learner.state_dict()
        learner.update(make_batch(environment, seed=step))
        after = learner.state_dict()
        assert (
            after["parameters"]["critics.0.weight"] != before["parameters"]["critics.0.weight"]
        ).any()
        policy = (
            after["parameters"]["policy.0.weight"] != before["parameters"]["policy.0.weight"]
        ).any()
        for group in ("policy", "critics"):
            name = f"{group}.0.weight"
            target = (after["targets"][name] != before["targets"][name]).any()
            assert target == policy, "targets move with the policy"
        if policy:
            moved.append(step)
    assert moved == [2, 4, 6, 8, 10]


def test_skipped_updates_do_not_shift_the_policys_steps():
    environment = box_environment()
    learner = make_learner(make_config("td3"), environment)
    batch = make_batch(environment)
    bad = changed(batch, reward=np.full(8, np.nan, np.float32))
    learner.update(batch)
    learner.update(bad)
    before = learner.state_dict()["parameters"]["policy.0.weight"]
    learner.update(batch)
    assert (learner.state_dict()["parameters"]["policy.0.weight"] != before).any()


def test_only_steps_of_the_policy_carry_its_gradient():
    environment = box_environment()
    learner = make_learner(make_config("td3"), environment)
    batch = make_batch(environment)
    first = learner.gradient(batch)
    assert len(first) == learner._layout.groups["policy"].place.start
    learner.apply(first)
    assert len(learner.gradient(batch)) == learner._layout.size
