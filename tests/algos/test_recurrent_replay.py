"""Learners from replay through time: what acts, what is learned, what both remember."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor

from fast_core.algorithm import LearnerSetup, PolicySetup, SequenceBatch
from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.errors import ConfigError
from fast_core.testing import check_algorithm
from fast_core.testing.samples import noise_of, replayed
from tests.algos.replay_cases import environment_for, make_config
from tests.forms import slow_but

NAMES = ["sac", "td3", "dsac", "dsact", "dqn"]
ROWS, LENGTH, BURN_IN = 6, 4, 3
CAMERA = SpaceSpec("box", (2, 40, 40), "uint8", low=(0.0,), high=(255.0,))
IMAGES = EnvironmentSpec("Test-v0", CAMERA, SpaceSpec("discrete", (), "int64", n=3), frames=2)


def config_of(name: str, **changes: Any) -> Any:
    given = {
        "recurrent": "gru",
        "recurrent_size": 5,
        "sequence_length": LENGTH,
        "burn_in": BURN_IN,
        "batch_size": ROWS * LENGTH,
        "n_step": 2,
    }
    return make_config(name, **(given | changes))


def learner_of(config: Any, environment: EnvironmentSpec, **setup: Any) -> Any:
    """One whose networks are far from their first values, and from their targets."""
    learner = config.make_algorithm(environment, LearnerSetup(0, 1, 1, 1, **setup))
    state, rng = learner.state_dict(), np.random.default_rng(7)
    for where in ("parameters", "targets"):
        for name, array in state[where].items():
            if name not in ("observations", "averages"):
                array += rng.normal(0.0, 0.3, array.shape).astype(np.float32)
    learner.load_state_dict(state)
    return learner


def batch_of(config: Any, environment: EnvironmentSpec, rows: int = ROWS) -> SequenceBatch:
    batch = replayed(config, environment, rows, 3)
    assert isinstance(batch, SequenceBatch)
    assert not batch.mask.all() and batch.mask[:, 0].any() and not batch.mask[:, 0].all()
    return batch


def gradient_of(learner: Any, batch: SequenceBatch) -> np.ndarray:
    """Of everything, noise drawn anew each time."""
    learner.reseed(0)
    learner._turn = None
    gradient = learner.gradient(batch, turn=2).copy()
    learner.hand_over()
    return gradient


# --- acting and learning --------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("name", ["sac", "td3", "dqn"])
def test_unrolled_sequences_are_the_policy_step_by_step(name: str, cell: str, backend: Any) -> None:
    environment, config = environment_for(name), config_of(name, recurrent=cell)
    learner, batch = learner_of(config, environment), batch_of(config, environment)
    policy = config.make_policy(environment, PolicySetup(backend))
    policy.load(learner.policy_parameters())
    there = learner._batches.take(batch)
    seen = learner.online.see(there.obs).detach().numpy()
    later = learner.online.see(there.next_obs).detach().numpy()
    at, assert_like = 0, np.testing.assert_allclose
    for n, mask in enumerate(batch.mask):
        rows = [t for t in range(len(mask)) if mask[t]]
        state = batch.state[n : n + 1]
        assert mask[0] or not state.any()
        features = {}
        for t in [*rows, rows[-1] + 1]:
            features[t] = policy.actor.seen(batch.obs[n : n + 1, t], state)[0]
            noise = noise_of(config, environment, 1, np.random.default_rng(0))
            output = policy.act(batch.obs[n : n + 1, t], noise=noise, explore=True, state=state)
            state = output.state
        for t in rows:
            if BURN_IN <= t < BURN_IN + LENGTH:
                assert_like(seen[at], features[t], rtol=1e-4, atol=1e-5)
                assert_like(later[at], features[min(t + 2, rows[-1] + 1)], rtol=1e-4, atol=1e-5)
                at += 1
    assert at == len(seen)


def test_images_and_stacked_frames_are_unrolled_too() -> None:
    config = config_of("dqn", network="nature_cnn", dueling=True)
    learner, batch = learner_of(config, IMAGES), batch_of(config, IMAGES)
    policy = config.make_policy(IMAGES, PolicySetup("torch"))
    policy.load(learner.policy_parameters())
    seen = learner.online.see(learner._batches.take(batch).obs).detach().numpy()
    state = batch.state[:1]
    for t in range(BURN_IN + LENGTH):  # the first sequence is whole
        if t >= BURN_IN:
            found = policy.actor.seen(batch.obs[:1, t], state)[0]
            np.testing.assert_allclose(seen[t - BURN_IN], found, rtol=1e-3, atol=1e-4)
        noise = np.zeros((1, 2), np.float32)
        state = policy.act(batch.obs[:1, t], noise=noise, explore=False, state=state).state
    report = learner.update(batch)
    assert report.updates == 1 and report.priority.shape == (ROWS,)


def test_dqn_through_time_is_what_autograd_makes_of_cells_of_torch() -> None:
    """Double targets of two steps, cell by cell and row by row."""
    environment = environment_for("dqn")
    config = config_of("dqn", recurrent="lstm", dueling=False, huber_threshold=None)
    learner, batch = learner_of(config, environment), batch_of(config, environment)
    state = learner.state_dict()
    online = {k: torch.tensor(v, requires_grad=True) for k, v in state["parameters"].items()}
    target = {k: torch.tensor(v) for k, v in state["targets"].items()}

    def values(leaves: dict[str, Tensor], n: int) -> dict[int, Tensor]:
        found, size = {}, config.recurrent_size
        cells = [leaves[f"memory.{kind}"] for kind in CELL]
        pair = torch.tensor(batch.state[n : n + 1]).split(size, 1)
        rows = np.flatnonzero(batch.mask[n])
        for t in [*rows, rows[-1] + 1]:
            pair = torch.lstm_cell(torch.tensor(batch.obs[n : n + 1, t]), pair, *cells)
            if t < BURN_IN:
                pair = tuple(part.detach() for part in pair)
            x = pair[0]
            for layer in range(3):
                weight, bias = (leaves[f"critics.{layer}.{kind}"][0] for kind in ("weight", "bias"))
                x = torch.nn.functional.linear(x, weight, bias)
                x = torch.relu(x) if layer < 2 else x
            found[t] = x[0]
        return found

    losses, errors = [], []
    for n, mask in enumerate(batch.mask):
        ours, theirs = values(online, n), values(target, n)
        errors.append([])
        for t in np.flatnonzero(mask[BURN_IN : BURN_IN + LENGTH]) + BURN_IN:
            wanted, k = 0.0, 0
            while k < 2 and t + k < len(mask) and mask[t + k]:
                wanted += config.gamma**k * batch.reward[n, t + k]
                k += 1
            if not batch.terminated[n, t + k - 1]:
                best = ours[t + k].argmax()
                wanted += config.gamma**k * float(theirs[t + k][best].detach())
            error = ours[t][batch.action[n, t]] - wanted
            losses.append(0.5 * batch.weight[n] * error.square())
            errors[-1].append(abs(float(error.detach())))
    loss = torch.stack(losses).mean()
    loss.backward()
    expected = np.concatenate([leaf.grad.numpy().ravel() for leaf in online.values()])
    found = gradient_of(learner, batch)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    report = learner.update(batch)
    assert report.metrics["critic_loss"] == pytest.approx(float(loss.detach()), rel=1e-4)
    said = [0.9 * max(error) + 0.1 * np.mean(error) for error in errors]
    np.testing.assert_allclose(report.priority, said, rtol=1e-4)


CELL = ("input.weight", "state.weight", "input.bias", "state.bias")


@pytest.mark.parametrize("name", NAMES)
def test_rows_that_are_not_there_change_nothing(name: str) -> None:
    environment, config = environment_for(name), config_of(name, normalize_observations=True)
    learner, batch = learner_of(config, environment), batch_of(config, environment)
    rng = np.random.default_rng(5)
    last = batch.mask.shape[1] - batch.mask[:, ::-1].argmax(axis=1)
    seen = np.pad(batch.mask, ((0, 0), (0, 1)))
    seen[np.arange(ROWS), last] = True  # the observation after the last row
    spoilt: dict[str, Any] = {"obs": batch.obs.copy(), "reward": batch.reward.copy()}
    spoilt["obs"][~seen] = rng.normal(0, 100, spoilt["obs"][~seen].shape)
    spoilt["reward"][~batch.mask] = 1e4
    other = dataclasses.replace(batch, **spoilt)
    assert not np.array_equal(other.obs, batch.obs)
    np.testing.assert_array_equal(gradient_of(learner, other), gradient_of(learner, batch))
    reports = []
    for given in (batch, other):
        fresh = learner_of(config, environment)
        reports.append(fresh.update(given))
        assert fresh.state_dict()["observations"]["mean"].any()
    assert reports[0].metrics == reports[1].metrics
    np.testing.assert_array_equal(reports[0].priority, reports[1].priority)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("name", NAMES)
def test_warming_up_is_beginning_with_what_was_remembered_then(name: str, cell: str) -> None:
    """So no gradient flows there. Targets are the networks: others would remember other things."""
    environment, config = environment_for(name), config_of(name, recurrent=cell)
    learner, batch = learner_of(config, environment), batch_of(config, environment)
    learner.adopt(learner.networks()[0], learner.networks()[0].copy(), 1)
    cold = config_of(name, recurrent=cell, burn_in=0)
    other = learner_of(cold, environment)
    other.adopt(*learner.networks(), 1)
    sequences = learner._batches.take(batch).obs.sequences
    memory = learner.online.parts["memory"]
    features = sequences.before.vector.view(BURN_IN, ROWS, -1)
    state = memory.after(features, sequences.state, sequences.keep[:BURN_IN]).numpy()
    late = ~batch.mask[:, BURN_IN - 1]
    state[late] = 0.0  # begins with the drawn row
    names = ("action", "reward", "terminated", "truncated", "mask", "obs")
    cut = {key: getattr(batch, key)[:, BURN_IN:] for key in names}
    begun = dataclasses.replace(batch, **cut, state=state)
    warmed, given = gradient_of(learner, batch), gradient_of(other, begun)
    np.testing.assert_allclose(warmed, given, rtol=1e-4, atol=1e-6)
    place = learner._layout.groups["memory"].place
    assert np.abs(warmed[place]).max() > 1e-4


def test_without_stored_state_a_sequence_begins_with_zero() -> None:
    environment = environment_for("dqn")
    kept, zero = config_of("dqn"), config_of("dqn", stored_state=False)
    batch = batch_of(kept, environment)
    assert kept.replay().stored_state and not zero.replay().stored_state
    without = dataclasses.replace(batch, state=None)
    nothing = dataclasses.replace(batch, state=np.zeros_like(batch.state))
    found = [
        gradient_of(learner_of(config, environment), given)
        for config, given in ((zero, without), (kept, nothing), (kept, batch))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.allclose(found[0], found[2])


def test_actions_at_random_before_the_first_update_are_remembered_like_others() -> None:
    environment, config = environment_for("sac"), config_of("sac")
    learner, policy = (
        learner_of(config, environment),
        config.make_policy(environment, PolicySetup()),
    )
    policy.load(learner.policy_parameters())
    assert policy._exploration == 1.0
    obs, state = np.ones((2, 5), np.float32), np.full((2, 5), 0.3, np.float32)
    noise = np.zeros((2, 2), np.float32)
    drawn = policy.act(obs, noise=noise, explore=True, state=state)
    quiet = policy.act(obs, noise=noise, explore=False, state=state)
    assert not np.array_equal(drawn.action, quiet.action)
    np.testing.assert_array_equal(drawn.state, quiet.state)
    with pytest.raises(TypeError, match="needs the state that its last call returned"):
        policy.act(obs, noise=noise, explore=False)


@pytest.mark.parametrize("name", ["sac", "dqn"])
def test_thoughts_are_of_what_is_remembered(name: str) -> None:
    environment, config = environment_for(name), config_of(name)
    learner, thinker = learner_of(config, environment), config.make_thinker(environment)
    thinker.load([*learner.policy_parameters(), *learner.insight_parameters()])
    obs, action = np.ones((1, 5), np.float32), np.full((1, 2), 0.5, np.float32)
    taken = action if name == "sac" else np.array([2])
    states = [np.full((1, 5), value, np.float32) for value in (0.0, 0.9)]
    first, second = (thinker.think(obs, taken, state) for state in states)
    assert first.value != second.value and not np.array_equal(first.q, second.q)
    if name == "dqn":
        size, memory = config.recurrent_size, learner.online.parts["memory"]
        state = torch.from_numpy(states[1])
        features = memory.after(torch.from_numpy(obs)[None], state, torch.ones(1, 1))[:, :size]
        outputs = learner.online("critics", features)[0]
        advantage = outputs[1:]
        q = (outputs[0] + advantage - advantage.mean()).detach().numpy()
        np.testing.assert_allclose(second.q, q, rtol=1e-4, atol=1e-5)


# --- the contract, and what is refused ------------------------------------------------------------


QUICK = [("sac", "gru"), ("dqn", "lstm")]
EVERY = [(name, cell) for name in NAMES for cell in ("gru", "lstm")]


@pytest.mark.parametrize(("name", "cell"), slow_but(QUICK, EVERY))
def test_recurrent_learners_keep_the_contract(name: str, cell: str) -> None:
    """Saving, two halves, insights: as every algorithm."""
    check_algorithm(config_of(name, recurrent=cell, normalize_observations=name == "sac"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"backend": "numpy"}, "algorithm.backend 'numpy' has no gradients through time"),
        ({"network": "tests.algos.own_networks:Net"}, "algorithm.recurrent 'gru' lies between"),
        ({"batch_size": 25}, r"multiple of algorithm.sequence_length \(4\).*got 25. Use 24 or 28"),
        ({"batch_size": 3}, r"got 3. Use 4\."),
        ({"sequence_length": 12, "batch_size": 24}, "at most the 10 steps of the longest episode"),
    ],
)
def test_what_a_memory_can_not_be_had_with_is_refused(changes: dict[str, Any], said: str) -> None:
    environment = msgspec.structs.replace(environment_for("dqn"), max_episode_steps=10)
    with pytest.raises(ConfigError, match=said):
        config_of("dqn", **changes).check(environment, LearnerSetup(0, 1, 1, 1))


def test_learners_without_memory_draw_transitions() -> None:
    assert DQNConfig().replay().sequence is None
    assert not DQNConfig().uses_torch(device="cpu", compile=False)
    assert config_of("dqn").uses_torch(device="cpu", compile=False)
    assert config_of("dqn").policy_backend(environment_for("dqn")) == "numpy"
