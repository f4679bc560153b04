"""What APPO does beyond PPO: rows of other policies, weighted, corrected, or left out."""

import dataclasses

import numpy as np
import pytest

from fast_core.algos.appo.config import APPOConfig, IMPALAConfig
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.vtrace import drifted, vtrace
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import loads
from fast_core.errors import ConfigError
from tests.algos import test_recurrent_ppo as recurrent
from tests.algos.rollout_cases import (
    begun,
    columns_of,
    make_batch,
    make_environment,
    make_learner,
    moved,
    parameters,
)

GRADIENTS = ["explicit", "autograd"]


def appo(**changes):
    given = {
        "minibatch_size": 16,
        "hidden_sizes": (8, 8),
        "epochs": 2,
        "normalize_observations": False,
        "normalize_rewards": False,
        "decoupled": True,
        "drift_clip_epsilon": None,
    }
    return APPOConfig(**(given | changes))


# --- on-policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("decoupled", [False, True])
def test_columns_of_the_policy_that_acted_are_those_of_ppo(gradient, continuous, decoupled):
    environment = make_environment(continuous=continuous)
    config = appo(gradient=gradient, decoupled=decoupled)
    learner = moved(make_learner(config, environment), by=0.2)
    plain = make_learner(
        PPOConfig(hidden_sizes=(8, 8), minibatch_size=16, gradient=gradient,
                  normalize_observations=False, normalize_rewards=False), environment
    )  # fmt: skip
    plain.load_state_dict({**learner.state_dict(), "statistics": plain.state_dict()["statistics"]})
    batch = make_batch(config, environment, learner)
    _, got = columns_of(learner, batch)
    _, expected = columns_of(plain, batch)
    np.testing.assert_allclose(got.scalars[:4], expected.scalars, atol=1e-5)
    np.testing.assert_allclose(got.scalars[4:], 1.0, atol=1e-5)
    assert got.metrics["ess"] == pytest.approx(1.0, abs=1e-6)


# --- off-policy ----------------------------------------------------------------------------------


def off_policy(config, **environment):
    """A learner, and rows that another policy collected."""
    spec = make_environment(**environment)
    batch = make_batch(config, spec, moved(make_learner(config, spec), seed=1))
    return moved(make_learner(config, spec), seed=2), batch


@pytest.mark.parametrize("continuous", [False, True])
def test_both_gradients_correct_for_another_policy_alike(continuous):
    ends = []
    for gradient in GRADIENTS:
        config = appo(gradient=gradient, rho_clip=1.5, c_clip=0.9)
        learner, batch = off_policy(config, continuous=continuous)
        _, columns = columns_of(learner, batch)
        assert 0 < columns.metrics["ess"] < 0.9
        assert columns.scalars[4].min() < 0.9 and columns.scalars[4].max() > 1.1
        report = learner.update(batch)
        ends.append((columns.scalars, parameters(learner), list(report.metrics.values())))
    for explicit, autograd in zip(*ends, strict=True):
        np.testing.assert_allclose(explicit, autograd, rtol=1e-3, atol=2e-4)


def test_columns_are_v_trace_of_the_rows_in_the_order_of_time():
    """Worked out anew from each row's log-probabilities and values, in float64."""
    config = appo(gamma=0.9, gae_lambda=0.8)
    learner, batch = off_policy(config)
    merged, columns = columns_of(learner, batch)
    steps, envs = merged.reward.shape
    log_prob, value = (x.reshape(steps, envs) for x in learner._core.evaluate(columns.action))
    rest = learner._core.values(steps * envs, len(merged.obs))
    next_value = np.concatenate([value[1:], rest[None, :envs]])
    next_value[merged.final_step, merged.final_column] = rest[envs:]
    assert len(merged.final_step) > 3
    expected = vtrace(
        *(x.astype(float) for x in (log_prob - merged.behaviour_log_prob, merged.reward)),
        *(x.astype(float) for x in (value, next_value)),
        merged.terminated,
        merged.truncated,
        gamma=0.9,
        gae_lambda=0.8,
    )
    got = dict(
        zip(("anchor", "advantage", "target", "value", "weight"), columns.scalars, strict=True)
    )
    for name in ("advantage", "target", "weight"):
        np.testing.assert_allclose(
            got[name].reshape(steps, envs), getattr(expected, name), atol=1e-5
        )
    np.testing.assert_array_equal(got["anchor"].reshape(steps, envs), log_prob)


def test_what_belongs_to_a_row_does_not_depend_on_any_order():
    config = appo()
    learner, batch = off_policy(config)
    _, columns = columns_of(learner, batch)
    other_way = dataclasses.replace(batch, rollouts=batch.rollouts[::-1])
    _, others = columns_of(learner, other_way)
    by_shard = columns.scalars.reshape(5, 8, 2, 4)
    np.testing.assert_allclose(others.scalars.reshape(5, 8, 2, 4)[:, :, ::-1], by_shard, atol=1e-6)
    core, order = learner._core, np.random.default_rng(0).permutation(64)
    core.begin(columns)
    core.shuffle(order)
    np.testing.assert_array_equal(core._epoch.scalars, columns.scalars[:, order])


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_clipping_is_around_the_policy_that_began_or_around_the_one_that_acted(gradient):
    clipped = {}
    for decoupled in (True, False):
        config = appo(gradient=gradient, decoupled=decoupled, epochs=1, minibatch_size=64)
        learner, batch = off_policy(config)
        clipped[decoupled] = learner.update(batch).metrics["clip_fraction"]
    assert clipped[True] == 0.0, "one step begins at the anchor"
    assert clipped[False] > 0.3


def test_rows_that_would_push_a_drifted_policy_on_have_no_weight():
    weights = []
    for limit in (None, 0.5):
        config = appo(drift_clip_epsilon=limit)
        learner, batch = off_policy(config)
        merged, columns = columns_of(learner, batch)
        weights.append(columns.scalars[4])
        log_ratio = columns.scalars[0] - merged.behaviour_log_prob.reshape(-1)
        push = columns.scalars[1] - columns.scalars[1].mean()  # they are normalised
        far = drifted(log_ratio, push, limit)
    assert 3 < far.sum() < 61
    np.testing.assert_array_equal(weights[1], np.where(far, 0.0, weights[0]))


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_rows_that_the_learner_would_never_have_made_teach_it_nothing(gradient):
    learner, batch = begun(appo(gradient=gradient))
    rollouts = [
        dataclasses.replace(each, behaviour_log_prob=np.full((8, 4), 40.0, np.float32))
        for each in batch.rollouts
    ]
    before = parameters(learner)
    assert learner.update(dataclasses.replace(batch, rollouts=tuple(rollouts))).updates == 8
    np.testing.assert_allclose(parameters(learner), before, atol=1e-6)


# --- rows that are too old -----------------------------------------------------------------------


def aged(batch, version, *versions):
    """The batch as a learner at ``version`` sees it, its shards' rows of these versions."""
    rollouts = [
        dataclasses.replace(rollout, policy_version=np.full((8, 4), each))
        for rollout, each in zip(batch.rollouts, versions, strict=True)
    ]
    return dataclasses.replace(batch, rollouts=tuple(rollouts), version=version)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_rows_older_than_max_lag_take_no_part_and_are_counted(gradient):
    config, learned = appo(gradient=gradient, max_lag=10), []
    for action in (0, 1):
        learner, batch = off_policy(config)
        old = dataclasses.replace(
            batch.rollouts[1], action=np.full((8, 4), action), reward=np.full((8, 4), action)
        )
        batch = dataclasses.replace(batch, rollouts=(batch.rollouts[0], old))
        report = learner.update(aged(batch, 30, 20, 19))
        assert (report.updates, report.skipped) == (4, 4), "32 of 64 rows, 16 at once"
        assert report.metrics["rows_too_old"] == 32
        learned.append(parameters(learner))
        again = make_learner(config, make_environment())
        again.load_state_dict(learner.state_dict())
        report = again.update(aged(batch, 30, 0, 0))
        assert (report.updates, report.skipped) == (0, 8)
        assert report.metrics["rows_too_old"] == 96
    np.testing.assert_array_equal(*learned)


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_nothing_is_learnt_where_every_sequence_is_too_old(gradient):
    config = appo(
        recurrent="gru", recurrent_size=6, hidden_sizes=(5,), minibatch_size=recurrent.ROWS,
        gradient=gradient, max_lag=3,
    )  # fmt: skip
    learner, _, batch = recurrent.made(config, recurrent.ENVIRONMENTS["discrete"])
    before = parameters(learner)
    report = learner.update(dataclasses.replace(batch, version=4))
    assert (report.updates, report.skipped) == (0, 2)
    np.testing.assert_array_equal(parameters(learner), before)


def test_single_rows_may_be_too_old():
    """Weights are refreshed inside rollouts: rows have versions of their own."""
    config = appo(max_lag=5)
    learner, batch = off_policy(config)
    version = np.repeat(np.arange(8)[:, None], 4, axis=1)
    rollouts = [dataclasses.replace(each, policy_version=version) for each in batch.rollouts]
    batch = dataclasses.replace(batch, rollouts=tuple(rollouts), version=8)
    merged, columns = columns_of(learner, batch)
    np.testing.assert_array_equal(merged.lag[:, 0], np.arange(8, 0, -1))
    known = columns.known.reshape(8, 8)
    assert not known[:3].any() and known[3:].all()
    without = moved(make_learner(appo(), make_environment()), seed=2)
    _, all_rows = columns_of(without, batch)
    np.testing.assert_array_equal(columns.scalars, all_rows.scalars)


def test_rows_too_old_are_worth_nothing():
    """A run that chooses its degree by this would otherwise never see what is left out."""
    config = appo(max_lag=10)
    learner, batch = off_policy(config)
    one = dataclasses.replace(batch, rollouts=batch.rollouts[:1])
    alone = columns_of(learner, one)[1].metrics["ess"]
    assert columns_of(learner, aged(batch, 30, 20, 19))[1].metrics["ess"] == alone / 2
    assert learner.update(aged(batch, 30, 0, 0)).metrics["ess"] == 0.0


def test_rows_left_out_for_either_reason_move_no_limit():
    """What is usual, and what rows are worth, is told by those that are learned from."""
    config = appo(max_lag=10, drift_clip_epsilon=0.3)
    learner, batch = off_policy(config)
    first, old = batch.rollouts
    quarantined = np.zeros((8, 4), bool)
    quarantined[2] = True
    first = dataclasses.replace(first, quarantined=quarantined, reward=first.reward + 3)
    old = dataclasses.replace(old, reward=old.reward - 50)
    batch = aged(dataclasses.replace(batch, rollouts=(first, old)), 30, 20, 19)
    merged, columns = columns_of(learner, batch)
    known = np.concatenate([~quarantined, np.zeros((8, 4), bool)], 1)
    np.testing.assert_array_equal(columns.known.reshape(8, 8), known)
    anchor, advantage, _, _, weight = (each.reshape(8, 8)[known] for each in columns.scalars)
    ratio = np.exp((anchor - merged.behaviour_log_prob[known]).astype(float))
    push = advantage - advantage.mean()
    far = ((ratio > 1.3) & (push > 0)) | ((ratio < 0.7) & (push < 0))
    assert 0 < far.sum() < 28 and not (far == drifted(np.log(ratio), advantage, 0.3)).all()
    np.testing.assert_allclose(weight, np.where(far, 0, np.minimum(1, ratio)), rtol=1e-5)
    share = ratio.sum() ** 2 / (60 * np.square(ratio).sum())  # 4 rows nobody could learn from
    assert columns.metrics["ess"] == pytest.approx(share, rel=1e-4)


def test_nothing_is_counted_without_a_limit():
    config = appo()
    learner, batch = off_policy(config)
    metrics = learner.update(aged(batch, 10**6, 0, 0)).metrics
    assert "rows_too_old" not in metrics
    assert 0 < metrics["ess"] < 1
    assert all(type(value) is float for value in metrics.values())


# --- IMPALA ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradient", GRADIENTS)
def test_impala_steps_along_the_policy_gradient_of_the_paper(gradient):
    """Weight times advantage times the slope of the log-probability, held by no clip."""
    config = IMPALAConfig(
        gradient=gradient, minibatch_size=64, hidden_sizes=(8,), normalize_advantage=False,
        normalize_observations=False, normalize_rewards=False, value_coef=0.0,
    )  # fmt: skip
    learner, batch = off_policy(config)
    assert config.updates_granted(64) == 1
    _, columns = columns_of(learner, batch)
    core, (_, advantage, _, _, weight) = learner._core, columns.scalars
    core.begin(columns)
    core.shuffle(np.arange(64))
    core.gradient(0, 64, np.inf)
    flat = core.parameters()
    got = core._gradient if gradient == "explicit" else core._flat.grad.numpy()
    for place in np.random.default_rng(0).choice(np.flatnonzero(got), 8, replace=False):
        slope, kept = [], flat[place].copy()
        for side in (1e-2, -1e-2):
            flat[place] = kept + side
            log_prob, _ = core.evaluate(columns.action)
            slope.append(-float((weight * advantage * log_prob).astype(float).mean()) / 2e-2)
        flat[place] = kept
        assert got[place] == pytest.approx(slope[0] - slope[1], rel=2e-2, abs=1e-4)


@pytest.mark.parametrize(
    ("key", "value"), [("epochs", 2), ("clip_epsilon", 0.2), ("decoupled", False)]
)
def test_impala_refuses_what_would_make_it_appo(key, value):
    with pytest.raises(ConfigError, match=rf"algorithm\.{key} must be"):
        loads(
            "name: run\nenvironment: {id: CartPole-v1}\nstop: {env_steps: 2048}\n"
            f"algorithm: {{name: impala, {key}: {str(value).lower()}}}\n",
            [],
            algorithm_config_type,
            source="run.yaml",
        )
