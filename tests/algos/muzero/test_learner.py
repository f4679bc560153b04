"""The loss and its gradient, against the paper's pseudocode in float64, one sequence at a time."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
import torch
from torch.nn import functional

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.muzero.config import POLICY, VALUE
from fast_core.errors import ConfigError
from tests.algos.muzero.cases import (
    CHOICES,
    ENVIRONMENT,
    SEEN,
    make_config,
    make_learner,
    make_sequences,
)
from tests.algos.muzero.test_support import h, inverse, two_hot
from tests.algos.muzero.test_targets import by_hand


class Oracle:
    """The networks and the loss as the paper has them; `latent` states have mean 0, deviation 1."""

    def __init__(self, config, learner):
        self.config, state = config, learner.state_dict()
        self.online = {
            name: torch.tensor(array, dtype=torch.float64, requires_grad=True)
            for name, array in state["parameters"].items()
        }
        self.target = {
            name: torch.tensor(array, dtype=torch.float64)
            for name, array in state["targets"].items()
        }

    def mlp(self, part, x, parameters):
        layers = len(self.config.hidden_sizes) + 1
        for index in range(layers):
            weight, bias = (parameters[f"{part}.{index}.{kind}"][0] for kind in ("weight", "bias"))
            x = weight @ x + bias
            x = x if index == layers - 1 else torch.relu(x)
        return x

    def centred(self, x):
        return functional.layer_norm(x, x.shape, eps=1e-5)

    def decode(self, said, most):
        if most == 0:
            return torch.from_numpy(np.asarray(inverse(said.detach().numpy()[0])))
        atoms = np.arange(-most, most + 1)
        return inverse((torch.softmax(said, 0).detach().numpy() * atoms).sum())

    def value_of(self, obs, parameters):
        latent = self.centred(self.mlp("representation", torch.from_numpy(obs), parameters))
        said = self.mlp("prediction", latent, parameters)[CHOICES:]
        return float(self.decode(said, self.config.value_support))

    def number_loss(self, said, wanted, most):
        if most == 0:
            return 0.5 * (said[0] - float(h(wanted))) ** 2
        shares = torch.from_numpy(two_hot(np.array([wanted]), most)[0])
        return -(shares * torch.log_softmax(said, 0)).sum()

    def sequence(self, batch, row, actions):
        """Pseudocode `update_weights`; the loss of one sequence, and its first value's error."""
        config, unroll = self.config, self.config.unroll
        obs = batch.obs[row].astype(np.float64)
        length, values = int(batch.mask[row].sum()), np.zeros(batch.obs.shape[:2])
        values[row] = [self.value_of(each, self.target) for each in obs]
        if config.bootstrap == "search":
            found = batch.extra[VALUE][row, :length]
            values[row, :length] = np.where(np.isnan(found), values[row, :length], found)
        predictions = []
        latent = self.centred(self.mlp("representation", torch.from_numpy(obs[0]), self.online))
        predictions.append((1.0, latent, None))
        for action in actions[row]:
            ones = functional.one_hot(torch.tensor(action), CHOICES).double()
            said = self.mlp("dynamics", torch.cat([latent, ones]), self.online)
            latent = self.centred(said[: config.latent] + latent)
            predictions.append((1.0 / unroll, latent, said[config.latent :]))
            latent = 0.5 * latent + (0.5 * latent).detach()
        loss, error = torch.zeros((), dtype=torch.float64), 0.0
        for k, (scale, state, reward) in enumerate(predictions):
            players = 2 if config.two_players else 1
            wanted = by_hand(batch, row, k, config.n_step, values, players=players)
            said = self.mlp("prediction", state, self.online)
            if k < length:
                policy = torch.from_numpy(batch.extra[POLICY][row, k].astype(np.float64))
                loss = loss - scale * (policy * torch.log_softmax(said[:CHOICES], 0)).sum()
            if wanted is not None:
                weight = scale * config.value_weight
                loss = loss + weight * self.number_loss(
                    said[CHOICES:], wanted, config.value_support
                )
            if reward is not None and (k <= length or batch.terminated[row].any()):
                given = float(batch.reward[row, k - 1])
                weight = scale * config.reward_weight
                loss = loss + weight * self.number_loss(reward, given, config.reward_support)
            if k == 0:
                error = abs(float(self.decode(said[CHOICES:], config.value_support)) - wanted)
        return loss, error

    def batch(self, batch, actions):
        """The loss of a batch, weighted, and the errors of its first values."""
        found = [self.sequence(batch, row, actions) for row in range(len(actions))]
        losses, errors = zip(*found, strict=True)
        weight = torch.from_numpy(batch.weight.astype(np.float64))
        return (weight * torch.stack(losses)).mean(), np.array(errors)


def drawn_actions(learner, batch, unroll):
    """Those that the learner follows: any, behind the end of an episode."""
    rng = np.random.default_rng()
    rng.bit_generator.state = learner._rng.bit_generator.state
    actions = rng.integers(CHOICES, size=(len(batch.action), unroll))
    return np.where(batch.mask[:, :unroll], batch.action[:, :unroll], actions)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"bootstrap": "search", "n_step": 4},
        {"two_players": True, "n_step": 3},
        {"value_support": 0, "reward_support": 0, "unroll": 1},
        {"hidden_sizes": (7, 5), "value_weight": 2.0, "reward_weight": 0.5, "unroll": 5},
    ],
)
def test_gradient_is_that_of_the_papers_pseudocode(changes):
    config = make_config(**changes)
    learner, batch = make_learner(config), make_sequences(config, seed=1)
    assert batch.terminated[:, : config.unroll].any() and batch.truncated.any()
    batch.extra[VALUE][::3] = np.nan  # of the warm-up, in which nobody searched
    oracle = Oracle(config, learner)
    loss, errors = oracle.batch(batch, drawn_actions(learner, batch, config.unroll))
    gradient = learner.gradient(batch).copy()
    learned = list(oracle.online.values())
    wanted = torch.autograd.grad(loss, learned)
    flat = np.concatenate([each.numpy().ravel() for each in wanted])
    np.testing.assert_allclose(gradient, flat, rtol=1e-3, atol=2e-5)
    report = learner.apply(gradient)
    np.testing.assert_allclose(report.priority, errors, rtol=1e-3, atol=1e-4)


def test_what_follows_an_episode_does_not_matter():
    """Neither rows that are not there nor, behind a terminated one, what is observed."""
    config = make_config(unroll=4)
    learner, batch = make_learner(config), make_sequences(config, seed=2)
    before = learner.gradient(batch).copy()
    learner = make_learner(config)
    gone, obs = ~batch.mask, batch.obs.copy()
    obs[:, 1:][gone] = 7.0
    over = batch.terminated.any(axis=1)
    assert over.any()
    last = batch.mask.sum(axis=1)
    obs[over, last[over]] = -3.0
    extra = {
        POLICY: np.where(gone[..., None], np.float32(1), batch.extra[POLICY]),
        VALUE: np.where(gone, np.float32(5), batch.extra[VALUE]),
    }
    action = np.where(gone, 1, batch.action)
    other = replace(batch, obs=obs, extra=extra, action=action)
    np.testing.assert_array_equal(learner.gradient(other), before)


def test_networks_say_nothing_at_first():
    config = make_config()
    learner = config.make_algorithm(ENVIRONMENT, LearnerSetup(3, 1, 1, 1))
    model = config.make_model(ENVIRONMENT, PolicySetup())
    model.load(learner.policy_parameters()[:-1])
    obs = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    root = model.root(obs)
    step = model.step(root.latent, np.array([0, 1, 2, 0]))
    for said in (root.logits, root.value, step.reward, step.value, step.logits):
        np.testing.assert_allclose(said, 0, atol=1e-6)
    assert np.ptp(step.latent[0]) > 1


@pytest.mark.parametrize("shape", [(), (1,)])
def test_players_move_as_the_settings_say_or_are_refused(shape):
    turn = SpaceSpec("box", shape, "int8", low=(0.0,), high=(1.0,))
    parts = (("seen", SEEN), ("to_play", turn))
    environment = msgspec.structs.replace(ENVIRONMENT, observation=SpaceSpec.composite(parts))
    plain = make_sequences(make_config())
    rows, times = plain.obs.shape[:2]
    obs = np.zeros((rows, times), environment.observation.row_dtype)
    turns = np.arange(times) % 2
    obs["seen"] = plain.obs

    def learn(players, *, two_players):
        seen = obs.copy()
        seen["to_play"] = players.reshape(rows, times, *shape)
        config = make_config(two_players=two_players)
        learner = config.make_algorithm(environment, LearnerSetup(0, 1, 1, 1))
        return learner.update(replace(plain, obs=seen))

    alternating, same = np.tile(turns, (rows, 1)), np.ones((rows, times), np.int8)
    learn(alternating, two_players=True)
    learn(same, two_players=False)
    twice = alternating.copy()
    twice[3, 1:] = 1 - turns[1:]
    steps = int(plain.mask.sum())
    with pytest.raises(ConfigError, match=f"'to_play' stayed 0 in 1 of {steps} steps"):
        learn(twice, two_players=True)
    once = same.copy()
    once[3, 0] = 0
    with pytest.raises(ConfigError, match=f"'to_play' changed in 1 of {steps} steps"):
        learn(once, two_players=False)
