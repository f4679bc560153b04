"""Algorithms of one's own from rollouts: what they learn is what PPO by autograd would."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
import torch

from fast_core.algorithm import LearnerSetup
from fast_core.algos.nets.observations import ObservationEncoder
from fast_core.algos.ppo.config import PPOConfig
from fast_core.algos.rollouts.merged import FrameRoom, merge
from fast_core.errors import ConfigError, TrainingDiverged
from tests.algos import test_ppo_spaces as spaces
from tests.algos import test_recurrent_ppo as recurrent
from tests.algos.rollout_cases import make_batch, make_environment
from tests.algos.rollouts import own_losses
from tests.algos.rollouts.own_losses import HERE, ClippedConfig, OwnConfig
from tests.forms import slow_but

NETWORKS = "tests.algos.own_networks"


def states(*learners):
    return [each.state_dict() for each in learners]


def assert_same(one, other):
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_same(value, other[key])
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("environment", "changes"),
    slow_but(
        [(spaces.PARTS, {}), (spaces.REACH, {"network": f"{NETWORKS}:Parts"})],
        [
            *((each, {}) for each in spaces.ALL),
            (spaces.REACH, {"network": f"{NETWORKS}:Parts"}),
            (spaces.PICTURE, {"network": f"{NETWORKS}:Frames"}),
            (spaces.MASKED, {"max_grad_norm": 0.01, "learning_rate_schedule": "linear"}),
        ],
    ),
    ids=str,
)
def test_loss_of_ppo_learns_the_bits_of_ppo(environment, changes):
    given = {"minibatch_size": 48, "epochs": 2, "gradient": "autograd", **changes}
    if environment is spaces.PICTURE and "network" in changes:
        environment = spaces.STACKED
    config, own = PPOConfig(**given), ClippedConfig(**given)
    ppo, mine = (spaces.learner_of(each, environment) for each in (config, own))
    for seed in range(2):
        batch = dataclasses.replace(
            spaces.collect(config, environment, ppo, seed=seed), progress=seed / 2
        )
        reports = [each.update(batch) for each in (ppo, mine)]
        assert reports[0] == reports[1] and reports[0].updates == 6
        assert_same(*states(ppo, mine))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_loss_of_ppo_learns_the_bits_of_ppo_through_time(cell):
    environment = recurrent.ENVIRONMENTS["masked"]
    config = recurrent.ppo(recurrent=cell, gradient="autograd", minibatch_size=36)
    ppo, _, batch = recurrent.made(config, environment)
    own = ClippedConfig(**{f: getattr(config, f) for f in config.__struct_fields__})
    mine = own.make_algorithm(environment, recurrent.setup())
    mine.load_state_dict(ppo.state_dict())
    lost = np.zeros((recurrent.STEPS, recurrent.ENVS), bool)
    lost[3, 1] = True
    first = dataclasses.replace(batch.rollouts[0], quarantined=lost)
    batch = dataclasses.replace(batch, rollouts=(first, *batch.rollouts[1:]))
    assert ppo.update(batch) == mine.update(batch)
    assert_same(*states(ppo, mine))


def learner_of(kind: str, environment, **changes):
    config = OwnConfig(**changes)
    shape = config.shape(environment)
    setup = LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=8)
    config.check(environment, setup)
    return getattr(own_losses, kind)(config, environment, shape, setup)


def test_all_rows_of_a_ticket_are_a_minibatch_unless_the_configuration_says_otherwise():
    environment = make_environment()
    learner = learner_of("Simple", environment)
    batch = make_batch(OwnConfig(), environment, learner)
    assert OwnConfig().updates_granted(64) == 1
    report = learner.update(batch)
    assert (report.updates, report.skipped) == (1, 0)
    assert set(report.metrics) == {
        "gradient_norm", "error", "explained_variance", "learning_rate", "nonfinite_updates",
    }  # fmt: skip
    smaller = learner_of("Simple", environment, minibatch_size=16, epochs=3)
    assert smaller.update(batch).updates == 12


def test_memory_takes_all_sequences_at_once():
    environment = recurrent.ENVIRONMENTS["discrete"]
    config = recurrent.ppo()
    _, _, batch = recurrent.made(config, environment)
    own = OwnConfig(recurrent="gru", recurrent_size=6, hidden_sizes=(5,))
    learner = own_losses.Simple(own, environment, own.shape(environment), recurrent.setup())
    assert learner.update(batch).updates == 1


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_head_that_judges_is_asked_at_every_step_and_where_episodes_were_cut_off(memory):
    environment = recurrent.ENVIRONMENTS["discrete"]
    changes = {"recurrent": memory, "recurrent_size": 6, "hidden_sizes": (5,)}
    _, _, batch = recurrent.made(recurrent.ppo(), environment)
    own = OwnConfig(**changes, normalize_observations=False)
    learner = own_losses.Own(own, environment, own.shape(environment), recurrent.setup())
    learner.heads["second"][0].weight.data.zero_()  # all that is seen gives one number
    merged = merge(batch, ObservationEncoder(environment, ()), FrameRoom())
    assert len(merged.final_step) > 3
    learner.update(batch)
    second = learner.second
    assert (second.value == second.value[0, 0]).all() and second.value[0, 0]
    assert (second.next_value == second.value[0, 0]).all()
    action = np.concatenate([each.action for each in batch.rollouts], axis=1)
    np.testing.assert_array_equal(second.reward, action == 1)
    # The value itself, by the same way, tells observations apart.
    learner._core.observe(merged)
    values = learner._core.values(0, len(merged.obs))
    heads = learner._core.values(0, len(merged.obs), "second")
    assert len(np.unique(values)) > 10 and len(np.unique(heads)) > 10, "it has learned by now"


def test_heads_learn_at_their_own_pace_within_their_own_limits():
    environment = make_environment()
    moved = []
    for limit in (1e-12, None):
        learner = learner_of("Own", environment, max_grad_norm=limit, adam_epsilon=1e-5)
        before = {k: v.copy() for k, v in learner.state_dict()["parameters"].items()}
        learner.update(make_batch(OwnConfig(), environment, learner))
        after = learner.state_dict()["parameters"]
        moved.append({name: np.abs(after[name] - before[name]).max() for name in after})
    assert all(moved[1][name] > 0 for name in moved[1])
    assert moved[1]["scale.log"] == pytest.approx(0.1, rel=1e-3)
    assert moved[1]["second.0.weight"] == pytest.approx(1e-2, rel=1e-2)
    assert all(moved[0][name] < 1e-6 for name in moved[0]), "each is held by the limit"
    learner = learner_of("Own", environment, max_grad_norm=1e-3)
    learner.update(make_batch(OwnConfig(), environment, learner))
    gradient = learner.state_dict()["first_moment"] / 0.1
    ends = {p.name.partition(".")[0]: p.end for p in learner._layout}
    parts = np.split(gradient, [ends["value"], ends["second"]])
    np.testing.assert_allclose([np.linalg.norm(part) for part in parts], 1e-3, rtol=1e-2)


def test_each_round_draws_its_own_noise_and_heads_stay_with_the_learner():
    environment = make_environment()
    learner = learner_of("Own", environment, minibatch_size=16, epochs=2)
    batches = [make_batch(OwnConfig(), environment, learner, seed=seed) for seed in range(3)]
    drawn = [learner.update(batch).metrics["noise"] for batch in batches]
    assert len({1.0, *drawn}) == 4
    assert "second.0.weight" in learner.state_dict()["parameters"]
    policies = {p.name for p in learner._networks}
    assert not any(name.startswith(("second", "scale")) for name in policies)
    assert len(learner.policy_parameters()) == len(OwnConfig().policy_fields(environment))
    assert len(learner.insight_parameters()) == len(OwnConfig().insight_fields(environment))


def test_first_values_of_heads_follow_from_the_seed_alone():
    found = []
    for others in range(2):
        torch.manual_seed(others)
        found.append(learner_of("Own", make_environment()).state_dict()["parameters"])
        assert torch.initial_seed() == others
    assert_same(*found)


def test_loss_sees_what_it_learns_from_where_rows_of_sequences_are_left_out():
    environment = recurrent.ENVIRONMENTS["masked"]
    _, _, batch = recurrent.made(recurrent.ppo(), environment)
    lost = np.zeros((recurrent.STEPS, recurrent.ENVS), bool)
    lost[3, 1] = True
    first = dataclasses.replace(batch.rollouts[0], quarantined=lost)
    own = OwnConfig(recurrent="gru", recurrent_size=6, hidden_sizes=(5,))
    learner = own_losses.Seeing(own, environment, own.shape(environment), recurrent.setup())
    learner.update(dataclasses.replace(batch, rollouts=(first, *batch.rollouts[1:])))
    assert learner.seen == [(recurrent.ROWS - 1, 3), (recurrent.ROWS - 1, 3)]


def test_another_run_begins_with_policy_and_heads_that_were_learned():
    environment = make_environment()
    learner, other = (learner_of("Own", environment) for _ in range(2))
    learner.update(make_batch(OwnConfig(), environment, learner))
    other.begin_from(learner.state_dict())
    mine, its = states(learner, other)
    assert_same(mine["parameters"], its["parameters"])
    assert not its["first_moment"].any()
    third = learner_of("Own", environment)
    third.begin_with(learner.policy_parameters(), 64)
    for one, two in zip(learner.policy_parameters(), third.policy_parameters(), strict=True):
        np.testing.assert_array_equal(one, two)


def test_settings_that_callbacks_change_are_those_of_the_next_loss():
    environment = make_environment()
    learner = learner_of("Simple", environment)
    learner.change(msgspec.structs.replace(learner.settings, learning_rate=0.5))
    report = learner.update(make_batch(OwnConfig(), environment, learner))
    assert report.metrics["learning_rate"] == 0.5 == learner.settings.learning_rate


@pytest.mark.parametrize("kind", ["Own", "Simple"])
def test_quarantined_rows_are_not_learned_from(kind):
    environment, ends = make_environment(), []
    lost = np.zeros((8, 4), bool)
    lost[5, 1] = True
    for other in (0, 1):
        learner = learner_of(kind, environment)
        batch = make_batch(OwnConfig(), environment, learner)
        first = batch.rollouts[0]
        action = first.action.copy()
        action[lost] = other
        first = dataclasses.replace(
            first, action=action, quarantined=lost, truncated=first.truncated | lost
        )
        learner.update(dataclasses.replace(batch, rollouts=(first, batch.rollouts[1])))
        ends.append(learner.state_dict()["parameters"])
    assert_same(*ends)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("RowByRow", r"loss of RowByRow must give scalar.*'loss' is a tensor of shape \(64,\)"),
        ("Lossless", r"Lossless lacks loss\(self, rows\)"),
        (
            "Alone",
            r"loss of Alone must return a loss and a dict of numbers.*a tensor of shape \(\)",
        ),
        (
            "HostNumbers",
            r"loss of HostNumbers must give scalar tensors as metrics; 'error' is 0\.5",
        ),
        (
            "Detached",
            r"loss of Detached does not depend on any parameter of 'policy'.*\.detach\(\)",
        ),
        ("ValueAlone", r"loss of ValueAlone does not .* of 'policy'.*Use rows\.log_prob"),
        ("Unused", r"loss of Unused does not .* of 'second'.*Use self\.heads\['second'\]"),
        ("Wide", r"Wide: the head 'second' must put out \[\d+, 1\] to judge.*got \[\d+, 2\]"),
        ("NoSuchHead", r"NoSuchHead.*no head 'third'.*second"),
        ("Unasked", r"Write evaluates = True into yours"),
        ("OneStepLess", r"targets of OneStepLess: advantage .*\[8, 8\] here; .*shape \(7, 8\)"),
        ("Tuple", r"targets of Tuple must return a Targets; got"),
        ("Reserved", r"make_heads of Reserved: a head can't be called 'policy'"),
        ("Listed", r"make_heads of Listed must return a dict of torch\.nn\.Modules"),
        ("Empty", r"make_heads of Empty: 'second' has no parameters"),
        ("Double", r"make_heads of Double: .*float32; second\.weight is torch\.float64"),
    ],
)
def test_mistake_is_answered_with_what_was_needed(kind, message):
    environment = make_environment()
    acting = learner_of("Simple", environment)
    batch = make_batch(OwnConfig(), environment, acting)
    with pytest.raises(ConfigError, match=message):
        learner_of(kind, environment).update(batch)


def test_value_that_nobody_teaches_is_warned_of():
    environment = make_environment()
    learner = learner_of("PolicyAlone", environment)
    batch = make_batch(OwnConfig(), environment, learner)
    with pytest.warns(RuntimeWarning, match="of 'value'.*Add an error of rows.value"):
        learner.update(batch)
    learner.update(batch)  # said once


def test_loss_that_is_not_finite_is_skipped_and_ends_the_run_with_its_name():
    environment = make_environment()
    learner = learner_of("NotFinite", environment, nonfinite_limit=2)
    batch = make_batch(OwnConfig(), environment, learner)
    before = states(learner)[0]["parameters"]
    report = learner.update(batch)
    assert (report.updates, report.skipped) == (0, 1)
    assert_same(states(learner)[0]["parameters"], before)
    with pytest.raises(TrainingDiverged, match="or what NotFinite makes of them"):
        learner.update(batch)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", r"learner of Misnamed must look like 'package.module:Class'"),
        (
            f"{HERE}:OwnConfig",
            r"learner of Misnamed must name a subclass of ActorCritic .*OwnConfig",
        ),
    ],
)
def test_learner_that_is_none_is_refused(path, message):
    class Misnamed(OwnConfig, frozen=True, kw_only=True):
        learner = path

    with pytest.raises(ConfigError, match=message):
        Misnamed().make_algorithm(make_environment(), LearnerSetup(0, 2, 4, 8))
