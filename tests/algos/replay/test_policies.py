import math

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import PolicySetup
from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.replay.box_actions import BoxActions
from tests.algos.replay_cases import (
    ALL,
    BOX,
    box_environment,
    discrete_environment,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)


def acting(config, environment, *, updates=1, exploration=None):
    """A policy with a learner's parameters."""
    learner = make_learner(config, environment)
    for step in range(updates):
        learner.update(make_batch(environment, seed=step))
    parameters = list(learner.policy_parameters())
    if exploration is not None:
        parameters[-1] = np.float32([exploration])
    policy = config.make_policy(environment, PolicySetup())
    policy.load(parameters)
    return policy


def draw(config, environment, rows, seed=0):
    spec, rng = config.noise(environment), np.random.default_rng(seed)
    fill = rng.random if spec.kind == "uniform" else rng.standard_normal
    return fill((rows, *spec.shape), np.float32)


def observations(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, 5)).astype(np.float32)


def test_stored_actions_stretch_over_bounds_that_are_not_symmetric():
    actions = BoxActions(box_environment(low=(-1.0, -2.0), high=(3.0, 2.0)))
    stored = np.float32([[-1, -1], [0, 0], [1, 1], [0.5, -0.5]])
    np.testing.assert_array_equal(
        actions.to_environment(stored), np.float32([[-1, -2], [1, 0], [3, 2], [2, -1]])
    )


def test_rounding_never_leaves_the_box():
    # Middle and half of the first round to below its low, of the second to above its high.
    low, high = (-0.648688758794882, -0.4604265724722594), (0.45931089285988813, 0.2739233746429086)
    actions = BoxActions(box_environment(low=low, high=high))
    taken = actions.to_environment(np.float32([[-1, -1], [1, 1]]))
    assert (taken >= np.float32(low)).all() and (taken <= np.float32(high)).all()


def test_float64_actions_stay_within_bounds_that_float32_rounds_outwards():
    low, high = np.array([-0.1, -0.7, -0.3]), np.array([0.1, 1.1, 0.9])
    environment = box_environment(low=tuple(low), high=tuple(high))
    action = msgspec.structs.replace(environment.action, dtype="float64")
    actions = BoxActions(msgspec.structs.replace(environment, action=action))
    taken = actions.to_environment(np.float32([[-1, -1, -1], [1, 1, 1]]))
    assert taken.dtype == np.float64
    assert (taken >= low).all() and (taken <= high).all()


@pytest.mark.parametrize("name", BOX)
def test_before_the_first_update_actions_are_spread_evenly_over_the_box(name):
    environment = box_environment(low=(-1.0, -2.0), high=(3.0, 2.0))
    config = make_config(name)
    policy = acting(config, environment, updates=0)
    noise = draw(config, environment, 100_000)
    output = policy.act(observations(100_000), noise=noise, explore=True)
    taken = np.sort(policy.environment_action(output.action)[:, 0])
    uniform = np.linspace(-1.0, 3.0, len(taken))
    assert np.abs(taken - uniform).max() < 0.03
    np.testing.assert_allclose(output.behaviour_log_prob, -2 * math.log(2.0))
    quiet = policy.act(observations(2), noise=noise[:2], explore=False).action
    assert (quiet != output.action[:2]).any(), "evaluation is never random"


def test_squashed_policy_acts_as_its_learner_samples():
    environment = box_environment()
    config = make_config("sac")
    learner = make_learner(config, environment)
    learner.update(make_batch(environment))
    policy = config.make_policy(environment, PolicySetup())
    policy.load(learner.policy_parameters())
    obs, noise = observations(6), draw(config, environment, 6)
    output = policy.act(obs, noise=noise, explore=True)
    action, log_prob = learner._distribution.sample(learner._policy.forward(obs.T)[0], noise.T)
    np.testing.assert_allclose(output.action, action.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.behaviour_log_prob, log_prob, rtol=1e-4, atol=1e-5)
    mode = policy.act(obs, noise=noise, explore=False).action
    np.testing.assert_allclose(
        mode, np.tanh(learner._policy.forward(obs.T)[0][:2]).T, rtol=1e-5, atol=1e-6
    )


def test_deterministic_policy_adds_noise_of_the_configured_deviation():
    environment = box_environment()
    config = make_config("td3", exploration_noise=0.1)
    policy = acting(config, environment)
    obs = np.repeat(observations(1), 20_000, axis=0)
    noise = draw(config, environment, 20_000)
    still = policy.act(obs, noise=noise, explore=False).action.copy()
    assert (still == still[0]).all()
    moved = policy.act(obs, noise=noise, explore=True)
    assert abs((moved.action - still).std() - 0.1) < 0.003
    # Against the normal density.
    expected = -0.5 * np.square(noise).sum(1) - 2 * math.log(0.1) - math.log(2 * math.pi)
    np.testing.assert_allclose(moved.behaviour_log_prob, expected, rtol=1e-4, atol=1e-4)
    wild = acting(make_config("td3", exploration_noise=5.0), environment)
    action = wild.act(obs, noise=noise, explore=True).action
    assert action.min() == -1.0 and action.max() == 1.0


def test_deterministic_policy_without_noise_stays_finite():
    environment = box_environment()
    config = make_config("td3", exploration_noise=0.0)
    policy = acting(config, environment)
    output = policy.act(observations(3), noise=draw(config, environment, 3), explore=True)
    assert np.isfinite(output.action).all() and np.isfinite(output.behaviour_log_prob).all()


@pytest.mark.parametrize("dueling", [False, True])
def test_greedy_policy_takes_the_best_choice(dueling):
    environment = discrete_environment()
    config = make_config("dqn", dueling=dueling)
    learner = make_learner(config, environment)
    learner.update(make_batch(environment))
    policy = config.make_policy(environment, PolicySetup())
    policy.load(learner.policy_parameters())
    obs = observations(50) * 5
    action = policy.act(obs, noise=draw(config, environment, 50), explore=False).action
    output = learner._network.forward(obs.T)[0][int(dueling) :]
    np.testing.assert_array_equal(action, output.argmax(0))
    assert action.dtype == np.int64 and len(set(action.tolist())) > 1
    np.testing.assert_array_equal(policy.environment_action(action), action + 2)


def test_epsilon_is_the_share_of_random_actions_and_their_probability():
    environment = discrete_environment(choices=4)
    config = make_config("dqn")
    policy = acting(config, environment, exploration=0.2)
    obs = np.repeat(observations(1), 40_000, axis=0)
    noise = draw(config, environment, 40_000)
    best = policy.act(obs, noise=noise, explore=False).action[0]
    output = policy.act(obs, noise=noise, explore=True)
    shares = np.bincount(output.action, minlength=4) / len(obs)
    expected = np.full(4, 0.05)
    expected[best] += 0.8
    np.testing.assert_allclose(shares, expected, atol=0.006)
    np.testing.assert_allclose(
        np.exp(output.behaviour_log_prob), expected[output.action], rtol=1e-5
    )


def test_forbidden_choices_are_never_taken():
    plain = discrete_environment(choices=4)
    mask = SpaceSpec("box", (4,), "int8", low=(0.0,), high=(1.0,))
    space = SpaceSpec.composite((("seen", plain.observation), ("allowed", mask)))
    environment = msgspec.structs.replace(plain, observation=space, action_mask="allowed")
    config = make_config("dqn")
    rng = np.random.default_rng(0)
    obs = np.zeros(5000, space.row_dtype)
    obs["seen"] = rng.normal(size=(5000, 5))
    obs["allowed"] = rng.random((5000, 4)) < 0.4
    obs["allowed"][np.arange(5000), rng.integers(0, 4, 5000)] = 1
    policy = config.make_policy(environment, PolicySetup())
    learner = make_learner(config, environment)
    for epsilon in (0.0, 0.5, 1.0):
        policy.load([*learner.policy_parameters()[:-1], np.float32([epsilon])])
        for explore in (False, True):
            noise = draw(config, environment, 5000)
            noise[:10] = np.nextafter(np.float32(1), np.float32(0))
            action = policy.act(obs, noise=noise, explore=explore).action
            assert obs["allowed"][np.arange(5000), action].all()
    # All random: every allowed choice equally often.
    one = obs.copy()
    one["allowed"] = [1, 0, 1, 1]
    action = policy.act(one, noise=draw(config, environment, 5000), explore=True).action
    np.testing.assert_allclose(
        np.bincount(action, minlength=4) / 5000, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.03
    )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("explore", [False, True])
def test_torch_acts_like_numpy(name, activation, explore):
    environment, config = environment_for(name), make_config(name, activation=activation)
    parameters = list(make_learner(config, environment).policy_parameters())
    parameters[-1] = np.float32([0.3 if name == "dqn" else 0.0])
    obs, noise, found = observations(40), draw(config, environment, 40), []
    for backend in ("numpy", "torch"):
        policy = config.make_policy(environment, PolicySetup(backend=backend))
        policy.load(parameters)
        found.append(policy.act(obs, noise=noise, explore=explore))
    np.testing.assert_allclose(found[0].action, found[1].action, rtol=1e-4, atol=1e-6)
    ours, theirs = (output.behaviour_log_prob for output in found)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
