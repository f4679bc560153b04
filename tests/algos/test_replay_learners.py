"""What every learner from replay has to do, whichever algorithm and backend."""

import math

import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup, RolloutBatch
from fast_core.algos.replay.box_actions import BoxActions
from fast_core.errors import CheckpointError, ConfigError, TrainingDiverged
from tests.algos.replay_cases import (
    ALL,
    BACKENDS,
    BOX,
    box_environment,
    changed,
    constant_networks,
    discrete_environment,
    environment_for,
    flat,
    make_batch,
    make_config,
    make_learner,
)

every = pytest.mark.parametrize("name", ALL)
both = pytest.mark.parametrize("backend", BACKENDS)


def learner_and_environment(name, backend="numpy", **changes):
    environment = environment_for(name)
    return make_learner(make_config(name, backend=backend, **changes), environment), environment


def equal(first, second):
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[k], second[k]) for k in first)
    return bool(np.array_equal(first, second))


@every
def test_every_optimizer_moves_the_live_parameters_after_loading(name):
    learner, environment = learner_and_environment(name, "torch")
    for step in range(2):
        learner.update(make_batch(environment, seed=step))
    resumed, _ = learner_and_environment(name, "torch")
    resumed.load_state_dict(learner.state_dict())
    before = {k: v.copy() for k, v in resumed.state_dict()["parameters"].items()}
    for step in range(2):
        resumed.update(make_batch(environment, seed=step))
    after = resumed.state_dict()["parameters"]
    assert all((after[k] != before[k]).any() for k in before)


@every
def test_state_of_one_backend_continues_in_the_other(name):
    learner, environment = learner_and_environment(name, "numpy")
    other, _ = learner_and_environment(name, "torch")
    learner.update(make_batch(environment))
    other.load_state_dict(learner.state_dict())
    for step in range(1, 4):
        learner.update(make_batch(environment, seed=step))
        other.update(make_batch(environment, seed=step))
    for kind in ("parameters", "targets"):
        ours, theirs = learner.state_dict()[kind], other.state_dict()[kind]
        np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-3, atol=1e-4)


@every
@both
@pytest.mark.parametrize("column", ["obs", "next_obs", "reward", "discount", "weight"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_batch_that_is_not_finite_changes_nothing_and_is_counted(name, backend, column, poison):
    learner, environment = learner_and_environment(name, backend)
    learner.update(make_batch(environment))
    before = learner.state_dict()
    batch = make_batch(environment, seed=1)
    bad = np.array(getattr(batch, column))
    bad[3] = poison
    report = learner.update(changed(batch, **{column: bad}))
    assert (report.updates, report.skipped) == (0, 1)
    assert report.metrics["nonfinite_updates"] == 1.0 and report.priority is None
    after = learner.state_dict()
    for kind in ("parameters", "targets", "first_moment", "optimizer_steps", "updates"):
        assert equal(before[kind], after[kind]), kind
    assert learner.update(make_batch(environment, seed=2)).updates == 1
    assert np.isfinite(flat(learner.state_dict()["parameters"])).all()


@both
def test_gradient_of_numbers_whose_squares_are_none_is_skipped_without_a_warning(backend):
    learner, environment = learner_and_environment("sac", backend)
    batch = make_batch(environment)
    report = learner.update(changed(batch, reward=batch.reward * np.float32(1e30)))
    assert (report.updates, report.skipped) == (0, 1)


@every
def test_run_ends_after_so_many_bad_updates_in_a_row(name):
    learner, environment = learner_and_environment(name, nonfinite_limit=3)
    batch = make_batch(environment)
    bad = changed(batch, reward=np.full(8, np.nan, np.float32))
    learner.update(bad)
    learner.update(bad)
    learner.update(batch)
    learner.update(bad)
    learner.update(bad)
    with pytest.raises(TrainingDiverged, match=r"3 updates in a row.*nonfinite_limit"):
        learner.update(bad)


@every
@both
def test_scale_multiplies_the_step_size(name, backend):
    """Adam's first step is its step size, whatever the gradient: half of it moves half as far."""
    whole, environment = learner_and_environment(name, backend)
    half, _ = learner_and_environment(name, backend)
    before = whole.networks()[0].copy()
    vector = whole.gradient(make_batch(environment), turn=4).copy()
    whole.apply(vector.copy())
    half.apply(vector.copy(), scale=0.5)
    averages = np.zeros(len(before), bool)
    if "averages" in whole._layout.groups:  # these are no parameters, and move as ever
        averages[whole._layout.groups["averages"].place] = True
    moved, less = (learner.networks()[0] - before for learner in (whole, half))
    assert np.abs(moved).max() > 1e-4
    np.testing.assert_allclose(less[~averages], moved[~averages] / 2, rtol=1e-3, atol=2e-7)
    np.testing.assert_array_equal(less[averages], moved[averages])
    later = whole.gradient(make_batch(environment, seed=1), turn=8).copy()
    state = whole.state_dict()
    half.load_state_dict(state)
    whole.apply(later.copy())
    half.apply(later.copy())
    assert equal(whole.shared_state(), half.shared_state()), "the scale is of one step only"


def test_turn_says_whether_the_policy_is_due():
    learner, environment = learner_and_environment("td3", policy_delay=3)
    batch = make_batch(environment)
    lengths = [len(learner.gradient(batch, turn=turn)) for turn in range(1, 7)]
    assert lengths[2] == lengths[5] == make_config("td3").exchanged(environment)
    assert len({lengths[k] for k in (0, 1, 3, 4)}) == 1 and lengths[0] < lengths[2]
    assert len(learner.gradient(batch)) == lengths[0], "the next step is the first"
    learner.gradient(batch, turn=3)
    assert learner.update(batch).updates == 1
    assert learner.state_dict()["optimizer_steps"]["policy"] == 0, "turns are of one call only"


@every
def test_shared_state_is_what_replicas_have_alike(name):
    learner, environment = learner_and_environment(name)
    state, shared = learner.state_dict(), learner.shared_state()
    assert state.keys() - shared.keys() == {"random_state", "env_steps"}
    assert learner.updates == 0
    learner.update(make_batch(environment))
    assert learner.updates == 1
    for key in ("parameters", "first_moment", "second_moment", "updates"):
        assert not equal(shared[key], learner.shared_state()[key]), key
    assert equal(shared, {k: state[k] for k in shared}), "it is a copy"


@pytest.mark.parametrize("name", ["sac", "dsac", "dsact"])
def test_replicas_draw_noise_of_their_own(name):
    environment = environment_for(name)
    learners = [make_learner(make_config(name, policy_delay=1), environment) for _ in range(3)]
    for learner, replica in zip(learners, (0, 1, 1), strict=True):
        learner.reseed(replica)
    first, second, third = (
        learner.gradient(make_batch(environment)).copy() for learner in learners
    )
    assert (first != second).any() and (second == third).all()
    fresh = make_learner(make_config(name, policy_delay=1), environment)
    np.testing.assert_array_equal(fresh.gradient(make_batch(environment)), first)


@every
def test_exploration_is_random_until_the_first_update(name):
    learner, environment = learner_and_environment(name)
    assert learner.policy_parameters()[-1] == 1.0
    learner.update(make_batch(environment))
    assert learner.policy_parameters()[-1] < 1.0
    eager, _ = learner_and_environment(
        name, random_warmup=False, **({"epsilon_initial": 0.3} if name == "dqn" else {})
    )
    assert eager.policy_parameters()[-1] < 0.5


@every
def test_first_targets_are_copies_that_do_not_move_with_the_networks(name):
    learner, environment = learner_and_environment(name, target_rate=1e-3)
    first = learner.state_dict()
    for key, target in first["targets"].items():
        np.testing.assert_array_equal(target, first["parameters"][key])
        assert not np.shares_memory(target, first["parameters"][key])
    for step in range(2):
        learner.update(make_batch(environment, seed=step))
    moved, targets = learner.state_dict()["parameters"], learner.state_dict()["targets"]
    for key, target in targets.items():
        step = np.abs(moved[key] - first["parameters"][key]).max()
        assert step > 0 and np.abs(target - first["targets"][key]).max() <= 0.01 * step


@every
def test_numbers_of_rows_may_change(name):
    learner, environment = learner_and_environment(name)
    for rows in (8, 3, 1, 16, 8, 5, 7, 2):
        report = learner.update(make_batch(environment, rows=rows))
        assert report.updates == 1 and report.priority.shape == (rows,)


@every
def test_weights_of_zero_silence_rows(name):
    """Two batches that differ in a row of weight 0 have the same critics' gradient."""
    learner, environment = learner_and_environment(name)
    twin, _ = learner_and_environment(name)
    batch = make_batch(environment)
    weight = np.ones(8, np.float32)
    weight[2] = 0.0
    reward = batch.reward.copy()
    reward[2] += 100.0
    ours = learner.gradient(changed(batch, weight=weight))
    theirs = twin.gradient(changed(batch, weight=weight, reward=reward))
    np.testing.assert_array_equal(ours, theirs)


@every
def test_state_of_another_network_is_refused(name):
    learner, _ = learner_and_environment(name)
    other, _ = learner_and_environment(name, hidden_sizes=(8,))
    with pytest.raises(CheckpointError, match="must have the configured parameters"):
        learner.load_state_dict(other.state_dict())
    with pytest.raises(CheckpointError, match="format"):
        learner.load_state_dict({"format": 0})


@pytest.mark.parametrize("name", BOX)
def test_actions_that_no_box_bounds_are_refused(name):
    setup = LearnerSetup(0, 1, 1, 1)
    with pytest.raises(ConfigError, match="takes boxes of floating-point actions"):
        make_config(name).check(discrete_environment(), setup)
    unbounded = box_environment(low=(-np.inf,), high=(1.0,))
    with pytest.raises(ConfigError, match="finite bounds"):
        make_config(name).check(unbounded, setup)


@pytest.mark.parametrize("name", BOX)
def test_element_that_is_locked_to_one_value_has_no_say(name):
    environment = box_environment(low=(-2.0, 0.5), high=(2.0, 0.5))
    config = make_config(name)
    config.check(environment, LearnerSetup(0, 1, 1, 1))
    learner = make_learner(config, environment)
    for step in range(3):
        report = learner.update(make_batch(environment, seed=step))
        assert report.updates == 1
        assert all(math.isfinite(value) for value in report.metrics.values()), report.metrics
    actions = BoxActions(environment)
    assert actions.to_environment(np.array([[-1, -1], [1, 1]], np.float32)).tolist() == [
        [-2.0, 0.5],
        [2.0, 0.5],
    ]


def test_dqn_refuses_boxes():
    with pytest.raises(ConfigError, match="one discrete action"):
        make_config("dqn").check(box_environment(), LearnerSetup(0, 1, 1, 1))


@every
def test_setups_that_can_not_be_followed_are_refused(name):
    environment = environment_for(name)
    with pytest.raises(ConfigError, match=r"nodes\.optimizer\.compile must be false"):
        make_config(name).check(environment, LearnerSetup(0, 1, 1, 1, compile=True))
    with pytest.raises(ConfigError, match=r"algorithm\.backend 'numpy'"):
        make_config(name, backend="numpy").check(
            environment, LearnerSetup(0, 1, 1, 1, precision="bf16")
        )


def test_redq_needs_as_many_critics_as_it_draws():
    with pytest.raises(ConfigError, match="critics_in_target must be at most"):
        make_config("redq", critics=1).check(box_environment(), LearnerSetup(0, 1, 1, 1))


@every
def test_rollouts_are_a_fault(name):
    learner, _ = learner_and_environment(name)
    with pytest.raises(AssertionError, match="on-policy"):
        learner.update(RolloutBatch((), 0, 0.0))


@every
def test_backend_auto_is_torch_for_bf16_alone(name):
    config = make_config(name)
    assert not config.uses_torch(device="cpu", compile=False)
    assert config.uses_torch(device="cuda", compile=False)
    plain = make_learner(config, environment_for(name))
    assert type(plain._vectors).__name__ == "NumpyVectors"
    bf16 = make_learner(config, environment_for(name), precision="bf16")
    assert type(bf16._vectors).__name__ == "TorchVectors"
    with pytest.raises(ConfigError, match="computes in NumPy, on the CPU, in fp32 and without"):
        type(plain)(config, environment_for(name), LearnerSetup(0, 1, 1, 1, precision="bf16"))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["sac", "td3", "dsact"])
def test_policy_and_temperature_have_step_sizes_of_their_own(name, backend):
    rates = {"critics": 1e-3, "policy": 2e-4, "temperature": 5e-2}
    own = {"policy_learning_rate": rates["policy"], "policy_delay": 1}
    if name != "td3":
        own["temperature_learning_rate"] = rates["temperature"]
    config = make_config(name, backend=backend, learning_rate=rates["critics"], **own)
    environment = environment_for(name)
    learner = make_learner(config, environment)
    before = learner.networks()[0].copy()
    gradient = learner.gradient(make_batch(environment)).copy()
    learner.apply(gradient.copy())
    moved = before - learner.networks()[0]
    for group, rate in rates.items():
        if group in config.layout(environment).groups:
            place = config.layout(environment).groups[group].place
            first = gradient[place] / (np.abs(gradient[place]) + config.adam_epsilon)
            np.testing.assert_allclose(moved[place], rate * first, rtol=1e-3, atol=3e-7)


OTHERWISE = {
    "learning_rate": 5e-3,
    "target_rate": 0.5,
    "policy_learning_rate": 7e-3,
    "temperature": 0.7,
    "temperature_learning_rate": 9e-3,
    "target_entropy": -5.0,
    "epsilon_initial": 0.8,
    "epsilon_final": 0.3,
}
CHANGES = [(name, key) for name in ALL for key in ALL[name].changeable]


@both
@pytest.mark.parametrize(("name", "key"), CHANGES)
def test_changed_learner_goes_on_as_one_that_was_made_so(name, key, backend):
    def seen(learner):
        batches = [make_batch(environment, seed=seed) for seed in range(4)]
        for batch in batches:
            learner.update(batch)
        return learner.state_dict(), dict(enumerate(learner.policy_parameters()))

    learner, environment = learner_and_environment(name, backend)
    plain, _ = learner_and_environment(name, backend)
    made, _ = learner_and_environment(name, backend, **{key: OTHERWISE[key]})
    for each in (learner, plain):
        each.update(make_batch(environment, seed=9))
    made.load_state_dict(learner.state_dict())
    config = make_config(name, backend=backend, **{key: OTHERWISE[key]})
    made.change(config)  # as a resumed run does
    learner.change(config)
    after = seen(learner)
    assert equal(after[0], seen(made)[0])
    assert not (equal(after[0], (other := seen(plain))[0]) and equal(after[1], other[1]))


CERTAIN = {"dqn": [[100.0, 0.0, 0.0, 0.0]], "dsac": [[100.0, -200.0]], "dsact": [[100.0, -200.0]]}
SOFT = ("sac", "redq", "dsac", "dsact")


@every
@both
@pytest.mark.parametrize("discount", [0.99, 0.99**3, 0.0])
def test_time_limit_bootstraps_and_the_end_of_a_task_does_not(name, backend, discount):
    """Values are 100 everywhere and certain, there is next to no entropy, and a window pays 1."""
    soft = {"temperature": 1e-30} if name in SOFT else {}
    learner, environment = learner_and_environment(name, backend, **soft)
    state = learner.state_dict()
    constant_networks(state, "critics", CERTAIN.get(name, [[100.0]]))
    learner.load_state_dict(state)
    batch = make_batch(environment)
    columns = {"reward": np.ones(8), "discount": np.full(8, discount)}
    batch = changed(batch, **{key: np.float32(column) for key, column in columns.items()})
    error = learner.update(batch).priority
    np.testing.assert_allclose(error, 100.0 - (1.0 + discount * 100.0), atol=1e-3)
