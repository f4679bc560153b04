import dataclasses
import hashlib

import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.algorithm.spec import SpaceSpec
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.merged import FrameRoom, merge
from fast_core.algos.rollouts.targets import JudgedRollout
from fast_core.errors import CheckpointError, TrainingDiverged
from tests.algos.rollout_cases import (
    begun,
    make_batch,
    make_environment,
    make_learner,
    paid,
    parameters,
    policy_of,
)

GRADIENTS = ["explicit", "autograd"]


def ppo(**changes):
    given = {
        "minibatch_size": 16,
        "hidden_sizes": (8, 8),
        "epochs": 4,
        "normalize_observations": False,
        "normalize_rewards": False,
    }
    return PPOConfig(**(given | changes))


def digest(learner):
    """SHA-256 over everything a learner says is its state."""
    sha = hashlib.sha256()

    def add(value):
        if isinstance(value, dict):
            for key in sorted(value):
                sha.update(key.encode())
                add(value[key])
        else:
            sha.update(np.asarray(value).tobytes() + str(value).encode())

    add(learner.state_dict())
    return sha.hexdigest()


class Values:
    """A critic with known values."""

    def __init__(self, values_of):
        self._values_of = values_of

    def values(self, start, stop, name="value"):
        return self._values_of(start, stop, name)


def columns_of(learner, merged, critic):
    """What the rollouts teach by the words of a critic."""
    judged = JudgedRollout(merged, critic, merged.reward, evaluates=False)
    return judged.columns(learner.targets(judged))


def replaced(batch, **columns):
    """The batch with columns of its first rollout replaced."""
    first = dataclasses.replace(batch.rollouts[0], **columns)
    return dataclasses.replace(batch, rollouts=(first, *batch.rollouts[1:]))


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("continuous", [False, True])
def test_update_takes_the_granted_steps_and_reports_plain_floats(gradient, continuous):
    config, environment = ppo(gradient=gradient), make_environment(continuous=continuous)
    learner = make_learner(config, environment)
    before = parameters(learner)
    report = learner.update(make_batch(config, environment, learner))
    assert (report.updates, report.skipped) == (config.updates_granted(64), 0) == (16, 0)
    assert (parameters(learner) != before).any()
    assert set(report.metrics) == {
        "gradient_norm", "policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction",
        "explained_variance", "learning_rate", "nonfinite_updates",
    }  # fmt: skip
    assert all(type(value) is float for value in report.metrics.values())
    assert all(np.isfinite(value) for value in report.metrics.values())


@pytest.mark.parametrize(("truncated", "target"), [(True, 100.0), (False, 1.0)])
def test_target_at_a_time_limit_bootstraps_from_the_final_observation(truncated, target):
    config, environment = ppo(), make_environment()
    learner = make_learner(config, environment)
    batch = make_batch(config, environment, learner, shards=(0,))
    end = np.zeros((8, 4), bool)
    end[-1] = True
    no = np.zeros((8, 4), bool)
    batch = replaced(
        batch,
        reward=np.ones((8, 4), np.float32),
        truncated=end if truncated else no,
        terminated=no if truncated else end,
        final_obs=np.full((8, 4, 3), 55.0, np.float32),
    )
    merged = merge(batch, ObservationEncoder(environment, ()), FrameRoom())

    def values_of(
        start, stop, name
    ):  # 100 where an episode goes on; what is seen after reset, nothing
        values = np.full(stop - start, 100.0, np.float32)
        if start == 0:
            values[-4:] = 0.0
        else:
            assert (merged.obs.vector[start:stop] == 55.0).all()
        return values

    columns = columns_of(learner, merged, Values(values_of))
    _, advantage, targets, _ = columns.scalars.reshape(4, 8, 4)
    np.testing.assert_allclose(targets[-1], target, rtol=1e-5)
    np.testing.assert_allclose(advantage[-1], target - 100.0, rtol=1e-5, atol=1e-4)


def test_nothing_is_learnt_from_a_quarantined_step_or_beyond():
    """Its row wants what it has; the row before sees a truncation at what follows it."""
    config, environment = ppo(), make_environment()
    learner, batch = begun(config, environment)
    truncated, reward = np.zeros((8, 4), bool), np.ones((8, 4), np.float32)
    lost = np.zeros((8, 4), bool)
    truncated[5, 1] = lost[5, 1] = True
    reward[5, 1] = 0.0
    no = np.zeros((8, 4), bool)
    batch = replaced(batch, reward=reward, terminated=no, truncated=truncated, quarantined=lost)
    merged = merge(batch, ObservationEncoder(environment, ()), FrameRoom())
    values = np.random.default_rng(0).normal(size=len(merged.obs)).astype(np.float32)
    critic = Values(lambda start, stop, name: values[start:stop])
    columns = columns_of(learner, merged, critic)
    _, advantage, targets, _ = columns.scalars.reshape(4, 8, 8)
    value = values[: 9 * 8].reshape(9, 8)
    assert (advantage[5, 1], targets[5, 1]) == (0.0, value[5, 1])
    delta = 1.0 + config.gamma * value[5, 1] - value[4, 1]
    np.testing.assert_allclose(advantage[4, 1], delta, rtol=1e-5)
    delta = 1.0 + config.gamma * value[4, 1] - value[3, 1] + config.gamma * 0.95 * delta
    assert config.gae_lambda == 0.95
    np.testing.assert_allclose(advantage[3, 1], delta, rtol=1e-5)
    plain = replaced(batch, quarantined=None)
    merged = merge(plain, ObservationEncoder(environment, ()), FrameRoom())
    others = columns_of(learner, merged, critic).scalars.reshape(4, 8, 8)
    differs = np.argwhere(others[1] != advantage)
    assert differs.tolist() == [[t, 1] for t in range(6)], "its own episode alone"


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_quarantined_row_takes_no_part_in_an_update(gradient):
    """Not in advantages, losses or statistics: whatever stands in it, the same is learnt."""
    config = ppo(gradient=gradient, normalize_observations=True, normalize_rewards=True)
    environment, lost = make_environment(), np.zeros((8, 4), bool)
    lost[5, 1] = lost[7, 0] = lost[7, 1] = True
    digests = set()
    for other in (0, 1):
        learner = make_learner(config, environment)
        batch = make_batch(config, environment, learner)
        action = batch.rollouts[0].action.copy()
        log_prob = batch.rollouts[0].behaviour_log_prob.copy()
        action[lost], log_prob[lost] = other, -1.0 - other
        report = learner.update(
            replaced(
                batch,
                truncated=batch.rollouts[0].truncated | lost,
                quarantined=lost,
                action=action,
                behaviour_log_prob=log_prob,
            )
        )
        assert (report.updates, report.skipped) == (16, 0)
        assert learner.state_dict()["statistics"]["observations"]["count"] == 61
        assert learner.state_dict()["statistics"]["rewards"]["moments"]["count"] == 61
        digests.add(digest(learner))
    assert len(digests) == 1


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_nothing_is_learnt_where_every_row_is_quarantined(gradient):
    config, environment = ppo(gradient=gradient, normalize_rewards=True), make_environment()
    learner = make_learner(config, environment)
    batch, every = make_batch(config, environment, learner), np.ones((8, 4), bool)
    before = parameters(learner)
    rollouts = [
        dataclasses.replace(each, truncated=every, quarantined=every) for each in batch.rollouts
    ]
    report = learner.update(dataclasses.replace(batch, rollouts=tuple(rollouts)))
    assert (report.updates, report.skipped) == (0, 16)
    assert np.array_equal(parameters(learner), before)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_last_minibatch_of_one_row_and_equal_advantages_stay_finite(gradient):
    config, environment = ppo(gradient=gradient, minibatch_size=64), make_environment()
    learner = make_learner(config, environment, rows=65)
    batch = make_batch(config, environment, learner, steps=65, shards=(0,), envs=1)
    report = learner.update(batch)
    assert (report.updates, report.skipped) == (8, 0)
    assert np.isfinite(parameters(learner)).all()
    # Every value and reward 0: all advantages are exactly equal.
    state = learner.state_dict()
    for name in ("value.head.weight", "value.head.bias"):
        state["parameters"][name][...] = 0.0
    learner.load_state_dict(state)
    report = learner.update(replaced(batch, reward=np.zeros((65, 1), np.float32)))
    assert report.updates == 8 and np.isfinite(list(report.metrics.values())).all()
    assert np.isfinite(parameters(learner)).all()


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("column", ["reward", "obs", "behaviour_log_prob"])
def test_batch_with_nan_changes_nothing_and_is_counted_once(gradient, column):
    config = ppo(gradient=gradient, normalize_observations=True, normalize_rewards=True)
    environment = make_environment()
    learner = make_learner(config, environment)
    learner.update(make_batch(config, environment, learner))
    batch = make_batch(config, environment, learner, seed=1)
    poisoned = np.array(getattr(batch.rollouts[0], column))
    poisoned[2, 1] = np.nan
    before = learner.state_dict()
    report = learner.update(replaced(batch, **{column: poisoned}))
    after = learner.state_dict()
    assert (report.updates, report.skipped) == (0, 16)
    assert report.metrics == {"nonfinite_updates": 1.0}
    for name in before["parameters"]:
        assert (before["parameters"][name] == after["parameters"][name]).all()
    assert (before["second_moment"] == after["second_moment"]).all()
    observed = [s["statistics"]["observations"]["mean"] for s in (before, after)]
    assert (observed[0] == observed[1]).all()
    report = learner.update(batch)
    assert report.updates == 16 and report.metrics["nonfinite_updates"] == 1.0
    assert learner.state_dict()["nonfinite_in_a_row"] == 0
    assert np.isfinite(parameters(learner)).all()


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_single_step_whose_gradient_overflows_is_skipped(gradient):
    learner, batch = begun(ppo(gradient=gradient, epochs=1))
    improbable = batch.rollouts[0].behaviour_log_prob.copy()
    improbable[0, 0] = -1000.0  # the ratio is infinite, every column is finite
    reward = batch.rollouts[0].reward.copy()
    reward[0, 0] = -1000.0  # and so is the loss, where the advantage is negative
    report = learner.update(replaced(batch, behaviour_log_prob=improbable, reward=reward))
    assert (report.updates, report.skipped) == (3, 1)
    assert report.metrics["nonfinite_updates"] == 1.0
    assert np.isfinite(parameters(learner)).all()


def test_too_many_nonfinite_updates_in_a_row_end_training():
    learner, good = begun(ppo(nonfinite_limit=3))
    bad = replaced(good, reward=np.full((8, 4), np.inf, np.float32))
    learner.update(bad)
    learner.update(bad)
    learner.update(good)  # a good one in between starts the count anew
    learner.update(bad)
    learner.update(bad)
    with pytest.raises(TrainingDiverged, match=r"3 updates in a row.*nonfinite_limit"):
        learner.update(bad)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_optimizer_moves_the_live_parameters_after_load(gradient):
    config, environment = ppo(gradient=gradient), make_environment()
    learner = make_learner(config, environment)
    learner.update(make_batch(config, environment, learner))
    learner.load_state_dict(learner.state_dict())
    before, published = parameters(learner), [np.copy(p) for p in learner.policy_parameters()]
    learner.update(make_batch(config, environment, learner, seed=1))
    assert (parameters(learner) != before).mean() > 0.9
    now = learner.policy_parameters()
    assert all((a != b).any() for a, b in zip(now, published, strict=True))
    policy = config.make_policy(environment, PolicySetup("numpy"))
    policy.load(now)  # what is published is what trains: the ratios prove it
    batch = make_batch(config, environment, learner, seed=2)
    single = ppo(gradient=gradient, epochs=1, minibatch_size=64, clip_epsilon=1e-5)
    checker = make_learner(single, environment)
    checker.load_state_dict(learner.state_dict())
    assert checker.update(batch).metrics["clip_fraction"] == 0.0


def test_loaded_learner_steps_with_the_rate_that_is_left():
    config = ppo(gradient="autograd", learning_rate=1e-2, learning_rate_schedule="linear")
    environment = make_environment()
    learner = make_learner(config, environment)
    learner.update(make_batch(config, environment, learner))
    other = make_learner(config, environment)
    other.load_state_dict(learner.state_dict())
    report = other.update(make_batch(config, environment, other, progress=0.25))
    assert report.updates == 16
    assert report.metrics["learning_rate"] == pytest.approx(7.5e-3)


def test_state_of_one_gradient_continues_with_the_other():
    environment = make_environment()
    explicit, autograd = (make_learner(ppo(gradient=g), environment) for g in GRADIENTS)
    explicit.update(make_batch(ppo(), environment, explicit))
    autograd.load_state_dict(explicit.state_dict())
    batch = make_batch(ppo(), environment, explicit, seed=1)
    explicit.update(batch)
    autograd.update(batch)
    np.testing.assert_allclose(parameters(explicit), parameters(autograd), atol=1e-4)


def test_state_of_another_network_is_refused():
    state = make_learner(ppo(), make_environment()).state_dict()
    other = make_learner(ppo(hidden_sizes=(4,)), make_environment())
    with pytest.raises(CheckpointError, match=r"configured parameters.*Use the .*conf"):
        other.load_state_dict(state)
    with pytest.raises(CheckpointError, match="format"):
        other.load_state_dict(state | {"format": 99})


def test_target_kl_stops_the_round_and_reports_what_was_skipped():
    environment = make_environment()
    config = ppo(target_kl=1e-3, learning_rate=0.05)
    learner = make_learner(config, environment)
    report = learner.update(make_batch(config, environment, learner))
    assert 0 < report.updates < 16 and report.updates + report.skipped == 16
    free = make_learner(ppo(learning_rate=0.05), environment)
    report = free.update(make_batch(config, environment, free))
    assert report.skipped == 0 and report.metrics["approx_kl"] > 1.5e-3


def test_round_without_a_committed_step_changes_nothing_that_policies_see():
    """Its version stays the same, so nobody could tell."""
    environment = make_environment()
    config = ppo(target_kl=1e-9, normalize_observations=True, learning_rate=0.1)
    learner = make_learner(config, environment)
    first, second = (make_batch(config, environment, learner, seed=seed) for seed in (0, 1))
    learner.update(first)
    before = [parameter.copy() for parameter in learner.policy_parameters()]
    report = learner.update(second)  # old rows by now: stopped at the first minibatch
    assert report.updates == 0 and report.skipped > 0
    for parameter, old in zip(learner.policy_parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter, old)


def test_loss_is_compiled_once_and_only_when_asked_for(monkeypatch):
    environment, config = make_environment(), ppo()
    compiled, calls = [], []

    def compile_(function):
        compiled.append(function)
        return lambda *args: calls.append(len(args)) or function(*args)

    monkeypatch.setattr(torch, "compile", compile_)
    learners = [
        config.make_algorithm(
            environment,
            LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=8, compile=asked),
        )
        for asked in (False, True)
    ]
    batch = make_batch(config, environment, learners[0])
    assert learners[0].update(batch).updates > 0 and not compiled
    updates = learners[1].update(batch).updates
    assert (len(compiled), len(calls)) == (1, updates)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_gradient_norm_limit_bounds_the_step(gradient):
    environment = make_environment()
    firsts = []
    for limit in (1e-3, None):
        config = ppo(gradient=gradient, max_grad_norm=limit, epochs=1, minibatch_size=64)
        learner = make_learner(config, environment)
        learner.update(make_batch(config, environment, learner))
        firsts.append(learner.state_dict()["first_moment"])
    clipped, free = (np.linalg.norm(first) / 0.1 for first in firsts)
    assert clipped == pytest.approx(1e-3, rel=1e-3) and free > 0.1
    np.testing.assert_allclose(firsts[0] / clipped, firsts[1] / free, atol=1e-5)


def test_rows_are_visited_once_an_epoch_in_new_orders():
    class Spy:
        def __init__(self, core):
            self.core, self.orders, self.slices = core, [], []

        def shuffle(self, order):
            self.orders.append(order.tolist())
            self.core.shuffle(order)

        def gradient(self, start, stop, clip):
            self.slices.append((start, stop))
            return self.core.gradient(start, stop, clip)

        def __getattr__(self, name):
            return getattr(self.core, name)

    learner, batch = begun(ppo(minibatch_size=24))
    spy = learner._core = Spy(learner._core)
    learner.update(batch)
    assert [sorted(order) for order in spy.orders] == [list(range(64))] * 4
    assert len({tuple(order) for order in spy.orders}) == 4
    assert spy.slices == [(0, 24), (24, 48), (48, 64)] * 4


def test_observation_statistics_travel_one_round_behind():
    config, environment = ppo(normalize_observations=True), make_environment()
    learner = make_learner(config, environment)
    *_, mean, inverse_std = learner.policy_parameters()
    assert (mean == 0).all() and inverse_std == pytest.approx(1.0)
    batch = make_batch(config, environment, learner)
    learner.update(batch)
    seen = np.concatenate([r.obs[:-1].reshape(-1, 3) for r in batch.rollouts])
    *_, mean, inverse_std = learner.policy_parameters()
    np.testing.assert_allclose(mean, seen.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(inverse_std, 1 / seen.std(axis=0), rtol=1e-5)


CONTEXTS = SpaceSpec("discrete", (), "int64", n=4)


def bandit(config, environment, *, rounds, reward_of):
    """Train on episodes of one step; return the mean reward of the greedy policy."""
    rng = np.random.default_rng(0)
    setup = LearnerSetup(seed=0, shards=1, envs_per_shard=8, steps=16)
    learner = config.make_algorithm(environment, setup)
    for seed in range(rounds):
        obs = rng.integers(0, 4, (17, 8))
        learner.update(paid(config, environment, learner, obs, reward_of, seed))
    contexts, policy = np.arange(4), policy_of(config, environment, learner)
    noise = np.zeros((4, *config.noise(environment).shape), np.float32)
    return reward_of(contexts, policy.act(contexts, noise=noise, explore=False).action).mean()


@pytest.mark.parametrize(
    ("gradient", "shared"), [("explicit", False), ("explicit", True), ("autograd", False)]
)
def test_learns_which_choice_each_context_pays(gradient, shared):
    config = PPOConfig(
        gradient=gradient, shared_torso=shared, learning_rate=3e-3, minibatch_size=64,
        hidden_sizes=(16,), entropy_coef=0.01,
    )  # fmt: skip
    environment = make_environment(actions=4, observation=CONTEXTS)

    def reward_of(obs, action):
        return (action == (obs + 1) % 4).astype(float)

    assert bandit(config, environment, rounds=30, reward_of=reward_of) == 1.0


def test_learns_a_continuous_target():
    config = PPOConfig(
        learning_rate=1e-2, minibatch_size=64, hidden_sizes=(16,), normalize_rewards=True
    )
    environment = make_environment(actions=1, continuous=True, observation=CONTEXTS)

    def reward_of(obs, action):
        return -np.square(action[..., 0] - (obs - 1.5) / 2)

    assert bandit(config, environment, rounds=40, reward_of=reward_of) > -0.01


OTHERWISE = {
    "learning_rate": 5e-3,
    "clip_epsilon": 0.01,
    "value_clip_epsilon": 0.01,
    "value_coef": 2.0,
    "entropy_coef": 0.5,
    "max_grad_norm": 0.01,
    "target_kl": 1e-6,
}


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("key", PPOConfig.changeable)
def test_changed_learner_goes_on_as_one_that_was_made_so(gradient, key):
    environment, setup = make_environment(), LearnerSetup(0, 2, 4, 8)
    given = {"gradient": gradient, "learning_rate": 1e-3}
    config, other = ppo(**given), ppo(**(given | {key: OTHERWISE[key]}))
    learner, plain = (config.make_algorithm(environment, setup) for _ in range(2))
    made = other.make_algorithm(environment, setup)
    batch = make_batch(config, environment, learner)
    for each in (learner, plain, made):
        each.update(batch)
    made.load_state_dict(learner.state_dict())
    learner.change(other)
    for each in (learner, plain, made):
        each.update(batch)
    assert digest(learner) == digest(made) != digest(plain)
