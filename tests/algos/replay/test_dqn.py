import msgspec
import numpy as np
import pytest
import torch
from torch.nn import functional

from fast_core.algorithm.spec import SpaceSpec
from tests.algos.replay_cases import (
    BACKENDS,
    Oracle,
    as_tensors,
    changed,
    constant_networks,
    discrete_environment,
    make_batch,
    make_config,
    make_learner,
)


def values(output, dueling):
    if not dueling:
        return output
    advantage = output[:, 1:]
    return output[:, :1] + advantage - advantage.mean(1, keepdim=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_gradient_equals_autograd(backend, double, dueling, threshold):
    environment = discrete_environment()
    config = make_config(
        "dqn", backend=backend, double=double, dueling=dueling, huber_threshold=threshold
    )
    learner = make_learner(config, environment)
    learner.update(make_batch(environment, seed=100))
    state, rng = learner.state_dict(), np.random.default_rng(0)
    for where in ("parameters", "targets"):  # two networks that disagree
        for name, array in state[where].items():
            state[where][name] = rng.normal(size=array.shape).astype(np.float32) * 0.4
    learner.load_state_dict(state)
    batch, oracle = make_batch(environment, rows=30), Oracle(learner)
    obs, action, reward, discount, next_obs, weight = as_tensors(batch)
    with torch.no_grad():
        later = values(oracle.mlp("critics", next_obs, target=True)[0], dueling)
        online = values(oracle.mlp("critics", next_obs)[0], dueling)
        assert (later.argmax(1) != online.argmax(1)).any()
        best = (online if double else later).argmax(1, keepdim=True)
        target = reward + discount * later.gather(1, best)[:, 0]
    value = values(oracle.mlp("critics", obs)[0], dueling).gather(1, action[:, None])[:, 0]
    if threshold is None:
        loss = 0.5 * (value - target).square()
    else:
        loss = functional.huber_loss(value, target, reduction="none", delta=threshold)
    loss = (weight * loss).mean()
    ours = learner.gradient(batch)
    np.testing.assert_allclose(ours, oracle.gradient(loss), rtol=1e-3, atol=1e-5)
    report = learner.apply(ours)
    np.testing.assert_allclose(
        report.priority, (value - target).abs().detach().numpy(), rtol=1e-4, atol=1e-5
    )
    assert report.metrics["critic_loss"] == pytest.approx(loss.item(), rel=1e-4)


def test_forbidden_next_actions_are_not_bootstrapped_from():
    plain = discrete_environment()
    space = SpaceSpec.composite(
        (
            ("seen", plain.observation),
            ("allowed", SpaceSpec("box", (3,), "int8", low=(0.0,), high=(1.0,))),
        )
    )
    environment = msgspec.structs.replace(plain, observation=space, action_mask="allowed")
    for double in (False, True):
        learner = make_learner(make_config("dqn", dueling=False, double=double), environment)
        state = learner.state_dict()
        constant_networks(state, "critics", [[5.0, 7.0, 6.0]])
        learner.load_state_dict(state)
        obs = np.zeros(8, space.row_dtype)
        obs["allowed"] = 1
        next_obs = obs.copy()
        next_obs["allowed"][:, 1] = 0  # the best one
        batch = changed(
            make_batch(plain), obs=obs, next_obs=next_obs, action=np.zeros(8, np.int64),
            reward=np.zeros(8, np.float32), discount=np.ones(8, np.float32),
        )  # fmt: skip
        np.testing.assert_allclose(learner.update(batch).priority, 6.0 - 5.0, atol=1e-6)


def test_epsilon_falls_with_env_steps_and_travels_with_the_parameters():
    environment = discrete_environment()
    learner = make_learner(
        make_config("dqn", epsilon_initial=0.9, epsilon_final=0.1, epsilon_steps=1000), environment
    )
    seen = []
    for env_steps in (0, 500, 1000, 5000):
        learner.update(changed(make_batch(environment), env_steps=env_steps))
        seen.append(float(learner.policy_parameters()[-1][0]))
    np.testing.assert_allclose(seen, [0.9, 0.5, 0.1, 0.1], rtol=1e-6)
    resumed = make_learner(
        make_config("dqn", epsilon_initial=0.9, epsilon_final=0.1, epsilon_steps=1000), environment
    )
    resumed.load_state_dict(learner.state_dict())
    assert float(resumed.policy_parameters()[-1][0]) == np.float32(0.1)


def test_target_network_moves_at_its_interval():
    environment = discrete_environment()
    learner = make_learner(make_config("dqn", target_interval=3, target_rate=1.0), environment)
    moved = []
    for step in range(1, 8):
        before = learner.state_dict()["targets"]["critics.0.weight"]
        learner.update(make_batch(environment, seed=step))
        state = learner.state_dict()
        if (state["targets"]["critics.0.weight"] != before).any():
            moved.append(step)
            np.testing.assert_array_equal(
                state["targets"]["critics.0.weight"], state["parameters"]["critics.0.weight"]
            )
    assert moved == [3, 6]
