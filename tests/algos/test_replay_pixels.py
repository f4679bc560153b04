"""Learners from replay that see through convolutions, against autograd written the slow way."""

import dataclasses

import msgspec
import numpy as np
import pytest
import torch
from torch.nn import functional

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.errors import ConfigError
from tests.algos.pixel_cases import (
    SEEN,
    PixelOracle,
    draw_pixels,
    in_order,
    pixel_batch,
    pixel_environment,
    pixels,
)
from tests.algos.replay_cases import ALL, BOX, make_config, make_learner
from tests.forms import slow_but

every = pytest.mark.parametrize("name", slow_but(["dqn", "sac"], ALL))


def build(name, seen="stacked", **changes):
    """A learner whose online and target networks all differ, and its environment."""
    environment = pixel_environment(name, seen)
    config = make_config(name, target_rate=0.3, **changes)
    learner = make_learner(config, environment)
    learner.update(pixel_batch(environment, seed=100))
    state, rng = learner.state_dict(), np.random.default_rng(7)
    for where in ("parameters", "targets"):
        for key, array in state[where].items():
            if not key.startswith(("temperature", "averages")):
                spread = 0.3 * np.std(array) + 0.01
                state[where][key] = np.float32(array + spread * rng.normal(size=array.shape))
    learner.load_state_dict(state)
    return config, learner, environment


def columns(batch):
    found = (batch.action, batch.reward, batch.discount, batch.weight)
    return tuple(torch.from_numpy(column) for column in found)


def close(ours, expected):
    """Equal to four digits of each parameter's gradient, or of the largest."""
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(ours, expected, rtol=2e-3, atol=2e-4 * scale)


DQN = [
    (seen, double, dueling)
    for seen in SEEN
    for double, dueling in ((False, False), (True, False), (True, True))
]
QUICK_DQN = [
    ("stacked", False, False),
    ("colours", True, False),
    ("small", True, True),
    ("composite", True, True),
]


@pytest.mark.parametrize(("seen", "double", "dueling"), slow_but(QUICK_DQN, DQN))
def test_gradient_of_dqn_equals_autograd(seen, double, dueling):
    _, learner, environment = build(
        "dqn", seen, double=double, dueling=dueling, huber_threshold=0.5
    )
    batch, oracle = pixel_batch(environment), PixelOracle(learner)
    action, reward, discount, weight = columns(batch)

    def values(features, target=False):
        if not dueling:
            return oracle.mlp("critics", features, target=target)[0]
        if features.requires_grad:  # two streams send into the convolutions
            features.register_hook(lambda gradient: gradient / np.sqrt(2))
        output = oracle.mlp("critics", features, target=target)
        return output[0, :, :1] + output[1] - output[1].mean(1, keepdim=True)

    with torch.no_grad():
        later = values(oracle.see(batch.next_obs, environment, target=True), target=True)
        online = values(oracle.see(batch.next_obs, environment))
        best = (online if double else later).argmax(1, keepdim=True)
        target = reward + discount * later.gather(1, best)[:, 0]
    value = values(oracle.see(batch.obs, environment)).gather(1, action[:, None])[:, 0]
    loss = functional.huber_loss(value, target, reduction="none", delta=0.5)
    ours = learner.gradient(batch)
    close(ours, oracle.gradient((weight * loss).mean()))
    error = (value - target).abs().detach().numpy()
    np.testing.assert_allclose(learner.apply(ours).priority, error, rtol=1e-3, atol=1e-4)


def critics_inputs(oracle, batch, environment):
    """Features of the observations for the critics, and without a gradient for the policy."""
    seen = oracle.see(batch.obs, environment)
    return seen, seen.detach()


@pytest.mark.parametrize("seen", SEEN)
def test_gradient_of_sac_equals_autograd(seen):
    _, learner, environment = build("sac", seen, policy_delay=1)
    batch, oracle = pixel_batch(environment), PixelOracle(learner)
    action, reward, discount, weight = columns(batch)
    log_alpha = oracle.leaves["temperature"]
    alpha = log_alpha.exp().detach()
    with torch.no_grad():  # the policy sees as the online critics do, the target critics do not
        own_eyes = oracle.see(batch.next_obs, environment)
        next_action, log_prob = oracle.squashed(oracle.mlp("policy", own_eyes)[0])
        x = torch.cat([oracle.see(batch.next_obs, environment, target=True), next_action], 1)
        values = oracle.mlp("critics", x, target=True)[:, :, 0]
        target = reward + discount * (values.min(0).values - alpha * log_prob)
    obs, fixed = critics_inputs(oracle, batch, environment)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))[:, :, 0]
    loss = 0.5 * (weight * (value - target).square()).mean(1).sum()
    own, log_prob = oracle.squashed(oracle.mlp("policy", fixed)[0])
    own_value = oracle.mlp("critics", torch.cat([fixed, own], 1), fixed=True)[:, :, 0]
    loss = loss + (alpha * log_prob - own_value.min(0).values).mean()
    target_entropy = -2.0
    loss = loss - (log_alpha * (log_prob.detach() + target_entropy)).mean()
    close(learner.gradient(batch), oracle.gradient(loss))


@pytest.mark.parametrize("policy_delay", [1, 3])
def test_gradient_of_td3_equals_autograd(policy_delay):
    _, learner, environment = build("td3", policy_delay=policy_delay)
    batch, oracle = pixel_batch(environment), PixelOracle(learner)
    action, reward, discount, weight = columns(batch)
    due = (learner.updates + 1) % policy_delay == 0
    with torch.no_grad():  # the target policy sees as the target critics do
        eyes = oracle.see(batch.next_obs, environment, target=True)
        next_action = torch.tanh(oracle.mlp("policy", eyes, target=True)[0])
        noise = (0.2 * oracle.normal(2, len(reward)).T).clamp(-0.5, 0.5)
        x = torch.cat([eyes, (next_action + noise).clamp(-1, 1)], 1)
        values = oracle.mlp("critics", x, target=True)[:, :, 0]
        target = reward + discount * values.min(0).values
    obs, fixed = critics_inputs(oracle, batch, environment)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))[:, :, 0]
    loss = 0.5 * (weight * (value - target).square()).mean(1).sum()
    if due:
        own = torch.tanh(oracle.mlp("policy", fixed)[0])
        loss = loss - oracle.mlp("critics", torch.cat([fixed, own], 1), fixed=True)[0].mean()
    ours = learner.gradient(batch)
    close(ours, oracle.gradient(loss)[: len(ours)])
    assert (len(ours) == learner._layout.size) == due


@pytest.mark.parametrize("name", ["dsac", "dsact"])
def test_gradient_of_distributional_critics_equals_autograd(name):
    config, learner, environment = build(name, policy_delay=1)
    batch, oracle = pixel_batch(environment), PixelOracle(learner)
    action, reward, discount, weight = columns(batch)
    log_alpha = oracle.leaves["temperature"]
    with torch.no_grad():
        eyes = oracle.see(batch.next_obs, environment, target=True)
        output = oracle.mlp("policy", eyes, target=True)[0]
        next_action, log_prob = oracle.squashed(output)
        noise = oracle.normal(len(reward)).clamp(-3, 3)
        later = oracle.mlp("critics", torch.cat([eyes, next_action], 1), target=True)
        least = later[:, :, 0].argmin(0, keepdim=True)
        mean = later[:, :, 0].gather(0, least)[0] - log_alpha.exp() * log_prob
        std = functional.softplus(later[:, :, 1].gather(0, least)[0])
        y, z = reward + discount * mean, reward + discount * (mean + noise * std)
    obs, fixed = critics_inputs(oracle, batch, environment)
    value = oracle.mlp("critics", torch.cat([obs, action], 1))
    mean, std = value[:, :, 0], functional.softplus(value[:, :, 1])
    m, s = mean.detach(), std.detach()
    if name == "dsact":
        seen = torch.stack([s.mean(1), s.square().mean(1)], 1)
        old = oracle.leaves["averages"].detach()
        average = old + config.average_rate * (seen - old)
        bound, scale = 3 * average[:, :1], average[:, 1:] + config.variance_offset
    else:
        y, bound, scale = z, torch.tensor(config.return_bound), 1.0
    distance = torch.minimum(torch.maximum(z - m, -bound), bound)
    offset = config.variance_offset
    slope_mean = (m - y) / (s.square() + offset)
    slope_std = (s.square() - distance.square()) / (s.pow(3) + offset)
    loss = (weight * scale * (slope_mean * mean + slope_std * std)).mean(1).sum()
    own, log_prob = oracle.squashed(oracle.mlp("policy", fixed)[0])
    own_value = oracle.mlp("critics", torch.cat([fixed, own], 1), fixed=True)[:, :, 0]
    loss = loss + (log_alpha.exp().detach() * log_prob - own_value.min(0).values).mean()
    loss = loss - (log_alpha * (log_prob.detach() - 2.0)).mean()
    expected = oracle.gradient(loss)
    if name == "dsact":
        expected[learner._layout.groups["averages"].place] = seen.numpy().ravel()
    close(learner.gradient(batch), expected)


@pytest.mark.parametrize(
    ("name", "seen"),
    slow_but(
        [("dqn", "stacked"), ("sac", "composite")],
        [(name, seen) for name in ALL for seen in ("stacked", "composite")],
    ),
)
def test_policy_acts_by_what_the_learner_learned(name, seen):
    config, learner, environment = build(name, seen)
    assert config.policy_backend(environment) == "torch"
    fields, parameters = config.policy_fields(environment), list(learner.policy_parameters())
    assert [p.shape for p in parameters] == [f.shape for f in fields]
    parameters[-1] = np.zeros(1, np.float32)  # no exploration
    policy = config.make_policy(environment, PolicySetup("torch"))
    policy.load([np.ascontiguousarray(p) for p in parameters])  # as they travel
    obs = draw_pixels(environment, 5, np.random.default_rng(3))
    obs.flags.writeable = False
    noise = np.zeros((5, *config.noise(environment).shape), np.float32)
    action = policy.act(obs, noise=noise, explore=False).action
    oracle = PixelOracle(learner)
    with torch.no_grad():
        features = oracle.see(obs, environment)
        if name == "dqn":
            np.testing.assert_array_equal(action, oracle.mlp("critics", features)[1].argmax(1))
            return
        mean = oracle.mlp("policy", features)[0][:, : environment.action.size]
    np.testing.assert_allclose(action, torch.tanh(mean), rtol=1e-3, atol=1e-4)


def test_streams_have_no_gradient_where_they_say_nothing():
    """The value's stream puts out one number; averaged over learners the rest stays at rest."""
    environment = pixel_environment("dqn")
    pair = [make_learner(make_config("dqn"), environment) for _ in range(2)]
    first = pair[0].state_dict()["parameters"]
    for step in range(10):
        found = [
            learner.gradient(pixel_batch(environment, seed=2 * step + rank)).copy()
            for rank, learner in enumerate(pair)
        ]
        assert all(learner.apply(sum(found) / 2).updates == 1 for learner in pair)
    ours, theirs = (learner.state_dict()["parameters"] for learner in pair)
    for key, array in ours.items():
        np.testing.assert_array_equal(array, theirs[key])
        assert (array != first[key]).any()
    last = "critics.2.weight"
    np.testing.assert_array_equal(ours[last][0, 1:], first[last][0, 1:])
    assert (ours[last][0, 0] != first[last][0, 0]).any()


def test_sizes_of_dueling_streams_are_the_papers():
    environment = msgspec.structs.replace(
        pixel_environment("dqn"), observation=pixels(4, 84, 84), frames=4
    )
    shape = make_config("dqn", hidden_sizes=None).shape(environment)
    assert (shape.inputs, shape.hidden_sizes, shape.members) == (3136, (512,), 2)


@every
def test_numpy_has_no_convolutions(name):
    environment, setup = pixel_environment(name), LearnerSetup(0, 1, 1, 1)
    with pytest.raises(ConfigError, match=r"algorithm\.backend 'numpy' has no convolutions"):
        make_config(name, backend="numpy").check(environment, setup)
    with pytest.raises(ConfigError, match=r"policy\.backend 'numpy' has no convolutions"):
        make_config(name).make_policy(environment, PolicySetup("numpy"))
    flattened = make_config(name, network="mlp", backend="numpy")
    flattened.check(environment, setup)
    assert flattened.policy_backend(environment) == "numpy"
    learner = make_learner(flattened, environment)
    assert learner.update(pixel_batch(environment)).updates == 1


@every
def test_bf16_follows_fp32(name):
    environment = pixel_environment(name)
    config = make_config(name, hidden_sizes=(64,), learning_rate=1e-5)
    wide, narrow = (
        make_learner(config, environment, precision=precision) for precision in ("fp32", "bf16")
    )
    batch = pixel_batch(environment, rows=32)
    ours, theirs = narrow.gradient(batch), wide.gradient(batch)
    assert np.linalg.norm(ours - theirs) < 0.1 * np.linalg.norm(theirs)
    assert ours.dtype == np.float32
    assert narrow.apply(ours).updates == 1


@pytest.mark.parametrize("name", slow_but(["sac", "td3", "dsact"], BOX))
def test_policys_loss_does_not_train_the_convolutions(name):
    """Rows of weight 0 silence the critics; what is left is the policy's."""
    environment = pixel_environment(name)
    learner = make_learner(make_config(name, policy_delay=1), environment)
    batch = dataclasses.replace(pixel_batch(environment), weight=np.zeros(6, np.float32))
    gradient, groups = learner.gradient(batch), learner._layout.groups
    assert (gradient[groups["encoder"].place] == 0).all()
    assert (gradient[groups["policy"].place] != 0).any()


def test_in_order_is_the_vectors_order():
    _, learner, _ = build("dqn")
    named = learner.state_dict()["parameters"]
    np.testing.assert_array_equal(
        np.concatenate([in_order(array) for array in named.values()]), learner.networks()[0]
    )
