import math

import gymnasium
import msgspec
import numpy as np
import pytest

from fast_core.algorithm import PolicySetup
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets.action_map import ActionMap
from fast_core.algos.ppo.config import PPOConfig
from tests.algos.rollout_cases import make_environment

IMAGE = SpaceSpec("box", (2, 3, 2), "uint8", low=(0.0,) * 12, high=(255.0,) * 12)
CHOICE = SpaceSpec("discrete", (), "int64", n=5, start=-1)


def load(policy, parameters, scale=1.0):
    policy.load([np.array(p, np.float32) * scale for p in parameters])
    return policy


def random_parameters(config, environment, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 0.5, f.shape) for f in config.policy_fields(environment)]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_policy_computes_the_network_it_was_given(backend):
    config = PPOConfig(hidden_sizes=(4,), normalize_observations=False)
    environment = make_environment(actions=3)
    parameters = random_parameters(config, environment)
    weight, bias, head, head_bias = parameters
    obs = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
    logits = np.tanh(obs @ weight.T + bias) @ head.T + head_bias
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    output = load(config.make_policy(environment, PolicySetup(backend)), parameters).act(
        obs, noise=np.zeros(8, np.float32), explore=False
    )
    assert (output.action == logits.argmax(axis=1)).all()
    np.testing.assert_allclose(output.behaviour_log_prob, log_probs.max(axis=1), atol=1e-5)


def test_parameters_are_copied_at_load():
    config = PPOConfig()
    environment = make_environment()
    parameters = [p.astype(np.float32) for p in random_parameters(config, environment)]
    policy = config.make_policy(environment, PolicySetup("numpy"))
    policy.load(parameters)
    obs, noise = np.ones((4, 3), np.float32), np.full(4, 0.5, np.float32)
    before = policy.act(obs, noise=noise, explore=True).behaviour_log_prob.copy()
    for parameter in parameters:
        parameter += 1
    assert (policy.act(obs, noise=noise, explore=True).behaviour_log_prob == before).all()


def test_continuous_actions_are_stored_raw_and_clipped_for_the_environment():
    space = SpaceSpec("box", (2,), "float64", low=(-1.0, 0.0), high=(1.0, 5.0))
    environment = EnvironmentSpec("Test-v0", IMAGE, space)
    policy = PPOConfig().make_policy(environment, PolicySetup("numpy"))
    raw = np.array([[-7.0, -7.0], [0.5, 9.0]], np.float32)
    sent = policy.environment_action(raw)
    np.testing.assert_array_equal(sent, [[-1.0, 0.0], [0.5, 5.0]])
    assert sent.dtype == np.float64 and raw[0, 0] == -7.0


def test_discrete_actions_count_from_the_start_of_their_space():
    environment = EnvironmentSpec("Test-v0", IMAGE, CHOICE)
    policy = PPOConfig().make_policy(environment, PolicySetup("numpy"))
    assert policy.environment_action(np.array([0, 4])).tolist() == [-1, 3]


def test_several_choices_count_from_their_starts_in_the_shape_of_their_space():
    space = SpaceSpec("multi_discrete", (2, 2), "int32", counts=(3,) * 4, starts=(0, -1, 5, 0))
    environment = EnvironmentSpec("Test-v0", IMAGE, space)
    policy = PPOConfig().make_policy(environment, PolicySetup("numpy"))
    stored = np.array([[[0, 0], [0, 0]], [[2, 1], [2, 1]]])
    sent = policy.environment_action(stored)
    assert sent.tolist() == [[[0, -1], [5, 0]], [[2, 0], [7, 1]]] and sent.dtype == np.int32
    assert stored[1, 1, 0] == 2, "rollouts keep what was drawn"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clipped_actions_lie_within_bounds_that_float32_does_not_have(dtype):
    space = gymnasium.spaces.Box(-0.1, 0.1, (2,), np.dtype(dtype).type)
    spec = SpaceSpec("box", (2,), dtype, low=(float(space.low[0]),), high=(float(space.high[0]),))
    for action in ActionMap(spec)(np.array([[-5, 5], [0.05, -0.05]], np.float32)):
        assert action.dtype == dtype and space.contains(action)


def test_one_bound_stands_for_all_dimensions():
    space = SpaceSpec("box", (2, 2), "float32", low=(-1.0,), high=(0.5,))
    config = PPOConfig(normalize_actions=False)
    policy = config.make_policy(EnvironmentSpec("Test-v0", IMAGE, space), PolicySetup("numpy"))
    sent = policy.environment_action(np.array([[[-7.0, 0.0], [0.4, 9.0]]], np.float32))
    np.testing.assert_allclose(sent, [[[-1.0, 0.0], [0.4, 0.5]]])


@pytest.mark.parametrize("unit", [2.0**-13, 1.0, 2.0**13])
def test_actions_of_a_box_are_chosen_in_halves_of_its_width(unit):
    environment = make_environment(actions=2, continuous=True)
    bounds = {"low": (-unit, -math.inf), "high": (3 * unit, 1e38)}  # the second has none
    action = msgspec.structs.replace(environment.action, **bounds)
    environment = msgspec.structs.replace(environment, action=action)
    chosen = np.float32([[-1.0, -7.0], [0.5, 7.0], [9.0, 0.25]])
    config = PPOConfig(normalize_actions=True)
    policy = config.make_policy(environment, PolicySetup("numpy"))
    expected = chosen * [2 * unit, 1.0] + [unit, 0.0]
    expected[2, 0] = 3 * unit
    np.testing.assert_array_equal(policy.environment_action(chosen), expected)
    plain = PPOConfig(normalize_actions=False).make_policy(environment, PolicySetup("numpy"))
    low, high = environment.action.bounds
    np.testing.assert_array_equal(plain.environment_action(chosen), np.clip(chosen, low, high))


def test_discrete_observations_become_one_hot_rows():
    config = PPOConfig(hidden_sizes=(4,), normalize_observations=False)
    environment = EnvironmentSpec("Test-v0", CHOICE, SpaceSpec("discrete", (), "int64", n=3))
    parameters = random_parameters(config, environment)
    weight, bias, head, head_bias = parameters
    policy = load(config.make_policy(environment, PolicySetup("numpy")), parameters)
    output = policy.act(np.array([-1, 3]), noise=np.zeros(2, np.float32), explore=False)
    logits = np.tanh(weight.T[[0, 4]] + bias) @ head.T + head_bias
    assert (output.action == logits.argmax(axis=1)).all()
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(output.behaviour_log_prob, log_probs.max(axis=1), atol=1e-5)


def test_image_observations_are_flattened():
    config = PPOConfig(hidden_sizes=(4,), normalize_observations=True)
    environment = EnvironmentSpec("Test-v0", IMAGE, SpaceSpec("discrete", (), "int64", n=3))
    assert config.policy_fields(environment)[0].shape == (4, 12)
    policy = load(
        config.make_policy(environment, PolicySetup("numpy")),
        random_parameters(config, environment),
    )
    obs = np.random.default_rng(0).integers(0, 255, (6, 2, 3, 2)).astype(np.uint8)
    output = policy.act(obs, noise=np.full(6, 0.5, np.float32), explore=True)
    assert output.action.shape == (6,) and np.isfinite(output.behaviour_log_prob).all()
