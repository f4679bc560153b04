"""Activations, layer normalisation and sizes of one's own, through whole learners and policies."""

import warnings

import numpy as np
import pytest
import torch
from torch.nn import functional

from fast_core.algorithm import PolicySetup
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError
from tests.algos.nets.test_activations import MODULES
from tests.algos.pixel_cases import pixel_batch, pixel_environment
from tests.algos.replay_cases import (
    ALL,
    box_environment,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)
from tests.algos.rollout_cases import begun, make_environment
from tests.forms import slow_but

every = pytest.mark.parametrize("name", slow_but(["redq", "dqn"], ALL))
OPTIONS = {"activation": "gelu", "layer_norm": True}
SIZES = {"actor_sizes": (9,), "critic_sizes": (7, 11, 6)}


def options(name, **changes):
    return make_config(name, **OPTIONS, **({} if name == "dqn" else SIZES), **changes)


def by_modules(parameters, prefix, x, activation):
    """A network's output ``[B, out]`` by torch, from parameters by name."""
    x = torch.tensor(x)
    for index in range(100):
        layer = {
            kind: torch.tensor(np.squeeze(parameters[f"{prefix}.{index}.{kind}"], 0))
            for kind in ("weight", "bias", "scale", "shift")
            if f"{prefix}.{index}.{kind}" in parameters
        }
        x = functional.linear(x, layer["weight"], layer["bias"])
        if f"{prefix}.{index + 1}.weight" not in parameters:
            return x.numpy()
        if "scale" in layer:
            x = functional.layer_norm(x, x.shape[1:], layer["scale"], layer["shift"])
        x = MODULES[activation](x)


def fields_and_parameters(config, environment, learner):
    fields, parameters = config.policy_fields(environment), learner.policy_parameters()
    assert [f.shape for f in fields] == [np.shape(array) for array in parameters]
    return dict(zip([f.name for f in fields], parameters, strict=True))


@every
def test_gradients_of_both_backends_are_the_same(name):
    environment = environment_for(name)
    first, second = (
        make_learner(options(name, backend=backend), environment) for backend in ("numpy", "torch")
    )
    for step in range(3):
        batch = make_batch(environment, seed=step)
        ours, theirs = first.gradient(batch).copy(), second.gradient(batch).copy()
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * max(1.0, np.abs(theirs).max()))
        for learner in (first, second):
            learner.apply(ours.copy())


@every
@pytest.mark.parametrize("activation", slow_but(["gelu"], MODULES))
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_actors_put_out_what_torch_modules_do(name, activation, backend):
    environment = environment_for(name)
    config = options(name) if activation == "gelu" else make_config(name, activation=activation)
    learner = make_learner(config, environment)
    for step in range(2):
        learner.update(make_batch(environment, seed=step))
    parameters = fields_and_parameters(config, environment, learner)
    actor = config.actor(environment, PolicySetup(backend))
    actor.load(list(parameters.values())[:-1])
    obs = make_batch(environment, seed=9).obs
    expected = by_modules(parameters, "policy", obs, activation)
    np.testing.assert_allclose(actor.output(obs)[0].T, expected, rtol=1e-5, atol=1e-5)


def test_actor_in_bf16_stays_near():
    environment = environment_for("sac")
    config = make_config("sac", **OPTIONS, hidden_sizes=(32, 32))
    parameters = make_learner(config, environment).policy_parameters()[:-1]
    obs = make_batch(environment).obs
    outputs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not every CPU has instructions for it
        for precision in ("fp32", "bf16"):
            actor = config.actor(environment, PolicySetup("torch", precision=precision))
            actor.load(parameters)
            outputs.append(actor.output(obs)[0])
    assert 1e-6 < np.abs(outputs[0] - outputs[1]).max() < 0.05


def test_policy_and_critics_have_layers_of_their_own():
    config, environment = options("sac"), box_environment()
    assert config.policy_shape(environment).hidden_sizes == (9,)
    assert config.critic_shape(environment).hidden_sizes == (7, 11, 6)
    one = make_config("sac", critic_sizes=(5,))
    assert one.policy_shape(environment).hidden_sizes == (16, 12)
    assert one.critic_shape(environment).hidden_sizes == (5,)


@pytest.mark.parametrize(
    ("given", "policy", "critics"),
    [(False, False, False), (True, True, True), ("critics", False, True)],
)
def test_critics_alone_can_be_normalised(given, policy, critics):
    config, environment = make_config("td3", layer_norm=given), box_environment()
    assert config.policy_shape(environment).layer_norm is policy
    assert config.critic_shape(environment).layer_norm is critics


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_networks_above_convolutions_take_every_option(name):
    environment = pixel_environment(name)
    config = options(name)
    learner = make_learner(config, environment)
    for step in range(2):
        assert learner.update(pixel_batch(environment, seed=step)).updates == 1
    parameters = fields_and_parameters(config, environment, learner)
    assert parameters["policy.0.scale"].shape[0] == 1
    policy = config.make_policy(environment, PolicySetup("torch"))
    policy.load(learner.policy_parameters())
    noise = np.zeros((6, 2), np.float32)
    action = policy.act(pixel_batch(environment).obs, noise=noise, explore=False).action
    assert np.isfinite(action).all()


# --- PPO ------------------------------------------------------------------------------------------


def test_actor_and_critic_of_ppo_have_sizes_of_their_own():
    config = PPOConfig(name="ppo", actor_sizes=(9,), critic_sizes=(7, 11, 6), minibatch_size=16)
    learner, _ = begun(config)
    learned = learner.state_dict()["parameters"]
    assert learned["value.0.weight"].shape[0] == 7 and learned["value.head.weight"].shape == (1, 6)
    acting = fields_and_parameters(config, make_environment(), learner)
    assert acting["policy.0.weight"].shape[0] == 9
    assert not any(name.startswith("value") for name in acting)


@pytest.mark.parametrize("key", ["actor_sizes", "critic_sizes"])
@pytest.mark.parametrize(
    ("given", "why", "advice"),
    [
        ({"shared_torso": True}, "algorithm.shared_torso is true", "set algorithm.shared_torso"),
        ({"recurrent": "gru"}, "algorithm.recurrent is 'gru'", "Use algorithm.hidden_sizes"),
    ],
)
def test_sizes_of_one_head_are_refused_where_both_share_their_layers(key, given, why, advice):
    config = PPOConfig(name="ppo", **{key: (8,)}, **given)
    with pytest.raises(ConfigError) as caught:
        config.shape(make_environment(continuous=False))
    message = str(caught.value)
    assert f"algorithm.{key} can be set only" in message and "got [8]" in message
    assert why in message and advice in message


def test_sizes_of_one_head_need_convolutions_of_their_own():
    environment = pixel_environment("dqn")
    config = PPOConfig(name="ppo", actor_sizes=(8,))
    with pytest.raises(ConfigError, match=r"'Pixels-v0' shows images.*shared_torso to false"):
        config.shape(environment)
    own = PPOConfig(name="ppo", actor_sizes=(8,), shared_torso=False).shape(environment)
    assert own.hidden_sizes == (8,) and own.value_sizes == () and own.head_inputs(-1) == 512
