"""What learners from replay have in common with PPO: statistics, schedules, gradient limits."""

import math

import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup, PolicySetup
from fast_core.errors import CheckpointError
from tests.algos.pixel_cases import pixel_batch, pixel_environment
from tests.algos.replay_cases import (
    ALL,
    BACKENDS,
    changed,
    environment_for,
    make_batch,
    make_config,
    make_learner,
)
from tests.forms import slow_but

every = pytest.mark.parametrize("name", slow_but(["sac", "dqn", "dsact"], ALL))
both = pytest.mark.parametrize("backend", BACKENDS)

OFFSET = np.float32([300.0, -20.0, 0.0, 1e-3, 5.0])
SCALE = np.float32([10.0, 30.0, 0.0, 1e-3, 1.0])  # the third number is always the same


def raw_batch(environment, seed):
    """Observations as an environment with units gives them."""
    batch = make_batch(environment, seed=seed)
    return changed(batch, obs=OFFSET + SCALE * batch.obs, next_obs=OFFSET + SCALE * batch.next_obs)


def slow_statistics(batches, shares=1):
    """Mean and inverse deviation of every row that was drawn, in float64.

    The first batches of several optimizers are known apart: not how far their means are off.
    """
    if not batches:
        return np.zeros(5), np.ones(5)
    rows = [row.astype(np.float64) for batch in batches for row in batch.obs]
    mean = sum(rows) / len(rows)
    variance = sum((row - mean) ** 2 for row in rows) / len(rows)
    means = [batch.obs.mean(axis=0, dtype=np.float64) for batch in batches[:shares]]
    variance = variance - np.var(means, axis=0) * shares / len(batches)
    return mean, 1 / np.sqrt(variance + 1e-8)


def slow_normalised(obs, statistics, limit=10.0):
    mean, inverse_std = statistics
    return np.clip((obs - mean) * inverse_std, -limit, limit).astype(np.float32)


def published(learner):
    return [np.array(array) for array in learner.policy_parameters()[-3:-1]]


def without_statistics(state):
    kinds = ("parameters", "targets")
    return {
        (kind, name): array
        for kind in kinds
        for name, array in state[kind].items()
        if name != "observations"
    }


@every
@both
def test_statistics_are_those_of_every_row_that_was_drawn(name, backend):
    environment = environment_for(name)
    learner = make_learner(
        make_config(name, backend=backend, normalize_observations=True), environment
    )
    batches = []
    for step in range(6):
        mean, inverse_std = slow_statistics(batches)
        np.testing.assert_allclose(published(learner)[0], mean, rtol=1e-6)
        np.testing.assert_allclose(published(learner)[1], inverse_std, rtol=2e-4)
        batches.append(raw_batch(environment, step))
        learner.update(batches[-1])


@every
@both
def test_networks_learn_from_batches_normalised_by_the_batches_before(name, backend):
    environment = environment_for(name)
    own = make_learner(make_config(name, backend=backend, normalize_observations=True), environment)
    plain = make_learner(make_config(name, backend=backend), environment)
    batches = [raw_batch(environment, step) for step in range(4)]
    for step, batch in enumerate(batches):
        statistics = slow_statistics(batches[:step])
        seen = {
            column: slow_normalised(getattr(batch, column), statistics)
            for column in ("obs", "next_obs")
        }
        expected = plain.update(changed(batch, **seen)).priority
        np.testing.assert_allclose(own.update(batch).priority, expected, rtol=1e-3, atol=1e-4)
    ours, theirs = (without_statistics(learner.state_dict()) for learner in (own, plain))
    assert ours.keys() == theirs.keys()
    for key in ours:
        np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-3, atol=1e-4, err_msg=str(key))


@every
@pytest.mark.parametrize("backend", BACKENDS)
def test_policies_act_on_what_the_learner_would_see(name, backend):
    environment = environment_for(name)
    config, plain = make_config(name, normalize_observations=True), make_config(name)
    learner = make_learner(config, environment)
    batches = [raw_batch(environment, step) for step in range(3)]
    for batch in batches:
        learner.update(batch)
    fields = config.policy_fields(environment)
    parameters = learner.policy_parameters()
    assert [(f.name, f.shape) for f in fields[-3:]] == [
        ("observation.mean", (5,)),
        ("observation.inverse_std", (5,)),
        ("exploration", (1,)),
    ]
    assert [f.shape for f in fields] == [np.shape(array) for array in parameters]
    acting, reference = (c.make_policy(environment, PolicySetup(backend)) for c in (config, plain))
    acting.load(parameters)
    reference.load([*parameters[:-3], parameters[-1]])
    obs = raw_batch(environment, 9).obs
    seen = slow_normalised(obs, slow_statistics(batches))
    noise = np.full((8, 2), 0.4, np.float32)
    for explore in (False, True):
        ours = acting.act(obs, noise=noise, explore=explore)
        theirs = reference.act(seen, noise=noise, explore=explore)
        np.testing.assert_allclose(ours.action, theirs.action, atol=2e-3)


@both
def test_scale_of_numbers_far_from_zero_is_known_from_the_first_batch_on(backend):
    """Pressures of 101,325 and about 1 more or less."""
    environment = environment_for("sac")
    config = make_config("sac", backend=backend, normalize_observations=True)
    learner, batches = make_learner(config, environment), []
    for step in range(100):
        batch = make_batch(environment, seed=step)
        batches.append(changed(batch, obs=batch.obs + np.float32(101_325)))
        learner.update(batches[-1])
        if step in (0, 99):
            np.testing.assert_allclose(
                published(learner)[1], slow_statistics(batches)[1], rtol=1e-3
            )


@pytest.mark.parametrize("shares", [2, 3])
@pytest.mark.parametrize("name", slow_but(["dsact"], ALL))
def test_optimizers_that_average_merge_the_statistics_of_all_their_rows(name, shares):
    environment = environment_for(name)
    config = make_config(name, normalize_observations=True, batch_size=8 * shares)
    replicas = [make_learner(config, environment) for _ in range(shares)]
    batches = []
    for step in range(3):
        parts = [raw_batch(environment, 10 * step + rank) for rank in range(shares)]
        batches += parts
        found = [replica.gradient(part) for replica, part in zip(replicas, parts, strict=True)]
        mean = np.mean(found, axis=0, dtype=np.float32)
        for replica in replicas:
            assert replica.apply(mean.copy()).updates == 1
        for replica in replicas:
            wanted = slow_statistics(batches, shares)
            for ours, expected in zip(published(replica), wanted, strict=True):
                np.testing.assert_allclose(ours, expected, rtol=2e-4)
    first, *others = (replica.shared_state() for replica in replicas)
    for other in others:
        np.testing.assert_equal(other, first)


def test_gradient_of_older_parameters_brings_its_statistics_unharmed():
    """With `update: async` a worker measures from the mean that it knew."""
    environment = environment_for("sac")
    config = make_config("sac", normalize_observations=True)
    owner, worker = (make_learner(config, environment) for _ in range(2))
    batches = [raw_batch(environment, step) for step in range(3)]
    late = worker.gradient(batches[0], turn=1).copy()
    owner.update(batches[1])
    owner.apply(late)
    worker.adopt(*owner.networks(), owner.updates)
    np.testing.assert_array_equal(published(worker), published(owner))
    owner.apply(worker.gradient(batches[2], turn=2))
    for ours, expected in zip(published(owner), slow_statistics(batches), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=2e-4)


@both
@pytest.mark.parametrize("column", ["obs", "reward"])
def test_batch_that_is_not_finite_leaves_the_statistics_alone(backend, column):
    environment = environment_for("dsact")
    learner = make_learner(
        make_config("dsact", backend=backend, normalize_observations=True), environment
    )
    learner.update(raw_batch(environment, 0))
    before = learner.state_dict()["observations"]
    bad = raw_batch(environment, 1)
    getattr(bad, column)[3] = np.nan
    assert learner.update(bad).skipped == 1
    vector = learner.gradient(bad)
    assert not np.isfinite(vector).all() and learner.apply(vector).skipped == 1
    np.testing.assert_equal(learner.state_dict()["observations"], before)
    assert learner.update(raw_batch(environment, 2)).updates == 1


def test_only_the_numbers_beside_images_are_normalised():
    environment = pixel_environment("sac", "composite")
    config = make_config("sac", normalize_observations=True)
    assert config.policy_fields(environment)[-3].shape == (2,)
    own, plain = (make_learner(c, environment) for c in (config, make_config("sac")))
    batches = [pixel_batch(environment, seed=seed) for seed in range(2)]
    own.update(batches[0])
    plain.update(batches[0])  # nothing was seen before: they are equal until here
    mean = batches[0].obs["speed"].mean(axis=0)
    inverse_std = 1 / np.sqrt(batches[0].obs["speed"].var(axis=0) + 1e-8)
    seen = changed(batches[1], obs=batches[1].obs.copy(), next_obs=batches[1].next_obs.copy())
    for rows in (seen.obs, seen.next_obs):
        rows["speed"] = (rows["speed"] - mean) * inverse_std
    np.testing.assert_allclose(
        own.update(batches[1]).priority, plain.update(seen).priority, rtol=1e-3, atol=1e-4
    )
    images = pixel_environment("sac", "stacked")
    assert config.policy_fields(images) == make_config("sac").policy_fields(images)


# --- learning rate and gradient limit -------------------------------------------------------------


def networks_of(layout):
    """Which groups are clipped together."""
    below = [name for name in ("encoder",) if name in layout]
    return [[*below, "critics"], ["policy"]]


def slow_step(state, gradient, layout, config, *, left, due):
    """Parameters after one Adam step of everything that is due, in float64."""
    parameters, first, second = (
        np.concatenate([np.ravel(a) for a in state["parameters"].values()]).astype(np.float64),
        state["first_moment"].astype(np.float64),
        state["second_moment"].astype(np.float64),
    )
    rates = {"policy": getattr(config, "policy_learning_rate", None)}
    rates["temperature"] = getattr(config, "temperature_learning_rate", None)
    together = {name: names for names in networks_of(layout) for name in names}
    for name, group in layout.items():
        if name in ("averages", "observations") or (name in ("policy", "temperature") and not due):
            continue
        scale = 1.0
        if name in together and config.max_grad_norm is not None:
            squares = sum(float((gradient[layout[n].place] ** 2).sum()) for n in together[name])
            scale = min(1.0, config.max_grad_norm / (math.sqrt(squares) + 1e-6))
        at, steps = group.place, state["optimizer_steps"][name] + 1
        g = gradient[at] * scale
        m = 0.9 * first[at] + 0.1 * g
        v = 0.999 * second[at] + 0.001 * g**2
        rate = (rates.get(name) or config.learning_rate) * left
        m_hat, v_hat = m / (1 - 0.9**steps), v / (1 - 0.999**steps)
        parameters[at] -= rate * m_hat / (np.sqrt(v_hat) + config.adam_epsilon)
    return parameters


@every
@pytest.mark.parametrize("backend", [*BACKENDS, "modules"])
@pytest.mark.parametrize("longest", [None, 0.01, 1e6])
@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_steps_equal_those_of_a_slow_adam(name, backend, longest, schedule):
    environment = environment_for(name)
    given = {"max_grad_norm": longest, "learning_rate_schedule": schedule}
    own = {"network": "tests.algos.own_networks:Plain"}
    given |= own if backend == "modules" else {"backend": backend}
    if name != "dqn":
        given["policy_learning_rate"] = 3e-3
    config = make_config(name, normalize_observations=True, **given)
    learner = make_learner(config, environment)
    layout = config.layout(environment).groups
    for step in range(3):
        batch = changed(raw_batch(environment, step), progress=0.3 * step)
        state = learner.state_dict()
        gradient = learner.gradient(batch).copy()
        # As several optimizers would average it: what is clipped is what is applied.
        gradient *= np.float32(0.5 + step)
        wide = np.zeros(config.layout(environment).size)
        wide[: len(gradient)] = gradient
        # A round of these learners has one step: 99 of the 100 were there before it.
        left = 1 - 0.3 * step * 0.99 if schedule == "linear" else 1.0
        expected = slow_step(state, wide, layout, config, left=left, due=len(gradient) == len(wide))
        report = learner.apply(gradient)
        assert report.metrics["learning_rate"] == pytest.approx(config.learning_rate * left)
        after = learner.state_dict()["parameters"]
        ours = np.concatenate([np.ravel(array) for array in after.values()])
        for group in layout.values():
            if not group.statistic:
                np.testing.assert_allclose(
                    ours[group.place], expected[group.place], rtol=1e-4, atol=2e-6
                )


def test_rate_falls_to_that_of_the_last_round():
    environment = environment_for("sac")
    config = make_config("sac", learning_rate_schedule="linear")
    learner = config.make_algorithm(
        environment, LearnerSetup(0, shards=2, envs_per_shard=5, steps=10)
    )
    shares = []
    for env_steps in (100, 200, 900, 1000):
        batch = changed(make_batch(environment), env_steps=env_steps, progress=env_steps / 1000)
        rate = learner.update(batch).metrics["learning_rate"]
        shares.append(rate / config.learning_rate)
    np.testing.assert_allclose(shares, [1.0, 0.9, 0.2, 0.1])


def test_resumed_learner_goes_on_with_the_rate_that_is_left():
    """An optimizer that owns the parameters may first apply a gradient of another one."""
    environment = environment_for("sac")
    config = make_config("sac", learning_rate_schedule="linear")
    learner, resumed = (make_learner(config, environment) for _ in range(2))
    batch = changed(make_batch(environment), progress=0.5)
    learner.update(batch)
    gradient = learner.gradient(batch).copy()
    resumed.load_state_dict(learner.state_dict())
    rates = [each.apply(gradient.copy()).metrics["learning_rate"] for each in (learner, resumed)]
    assert rates[0] == rates[1] < config.learning_rate


@pytest.mark.parametrize("normalizes", [False, True])
def test_statistics_can_neither_come_nor_go_with_a_resume(normalizes):
    environment = environment_for("sac")
    first, second = (
        make_learner(make_config("sac", normalize_observations=given), environment)
        for given in (normalizes, not normalizes)
    )
    with pytest.raises(CheckpointError, match=f"got {not normalizes}, the checkpoint has"):
        second.load_state_dict(first.state_dict())
