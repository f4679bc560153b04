"""What every adapter of environments must do (`tests.conformance.adapters`)."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.drawable import Present
from fast_core.envs.stepping.batch_state import BatchState, encode_state
from fast_core.errors import CheckpointError, EnvironmentFailed
from fast_core.system.progress import ProgressWord, progress_words, read_progress
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.conformance.adapters import Maker, in_turn, vectorised
from tests.envs.driver import Driver, random_actions, same, toy
from tests.envs.toy import Counter

ROLE = Role.ENVIRONMENT_EPISODE


# --- steps, ends and automatic resets -----------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "flags"),
    [("terminated", (True, False)), ("truncated", (False, True)), ("both", (True, True))],
)
def test_terminated_and_truncated_are_kept_apart(
    make: Maker, end: str, flags: tuple[bool, bool]
) -> None:
    driver = make.run(toy("Counter", kwargs={"length": 2, "end": end}), 4)
    assert np.array(driver.terminated)[:, 0].tolist() == [False, flags[0]] * 2
    assert np.array(driver.truncated)[:, 0].tolist() == [False, flags[1]] * 2


def test_final_observation_is_the_true_successor_and_the_next_is_of_the_reset(
    make: Maker,
) -> None:
    driver = make.run(toy("Counter", kwargs={"length": 3}), 7)
    obs, reward, *_ = driver.columns()
    assert obs[:, 0, 0].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert reward[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert [final[0, 0] for final in driver.final_obs] == [99, 99, 3, 99, 99, 3, 99]
    assert obs[3, 0, 1] != obs[0, 0, 1]  # a new episode draws anew
    assert driver.final_obs[2][0, 1] == obs[0, 0, 1]


@pytest.mark.parametrize(
    ("length", "terminates"), [(100, False), (7, True), (8, False)], ids=["late", "same", "after"]
)
def test_time_limit_truncates_and_leaves_terminated_as_it_is(
    make: Maker, length: int, terminates: bool
) -> None:
    driver = make.run(toy("Counter", kwargs={"length": length, "max_episode_steps": 7}), 23)
    assert np.flatnonzero(np.array(driver.truncated)[:, 1]).tolist() == [6, 13, 20]
    assert np.array(driver.terminated)[6, 1] == terminates
    assert driver.batch.spec.max_episode_steps == 7
    assert driver.batch.take_episodes().lengths == [7] * 9


def test_batch_says_where_each_open_episode_is(make: Maker) -> None:
    batch = make.run(toy("Counter", kwargs={"length": 3}), 8).batch
    seed = EpisodeSeeds(1, ROLE, 2, 1)[2]
    assert batch.present(1) == Present(episode=2, seed=seed, step=2, total=1.0 + 2.0)
    again = make(toy("Counter", kwargs={"length": 3}))
    again.restore(batch.state(), np.zeros((3, 3), np.float32))
    assert again.present(1) == batch.present(1)


@in_turn
@pytest.mark.parametrize("form", ["float", "int", "scalar", "float32", "0-d", "(1,)"])
@pytest.mark.parametrize("envs", [1, 3])
def test_every_form_of_a_reward_is_the_same_number(make: Maker, form: str, envs: int) -> None:
    driver = make.run(toy("Counter", kwargs={"reward": form}), 6, envs)
    assert np.array(driver.reward).tolist() == [[r] * envs for r in (1, 2, 3, 4, 5, 1)]
    assert driver.batch.take_episodes().returns == [15.0] * envs


@in_turn
@pytest.mark.parametrize("form", ["(2,)", "text"])
@pytest.mark.parametrize("envs", [1, 2, 3])
def test_a_reward_that_is_not_one_number_names_the_environment(
    make: Maker, form: str, envs: int
) -> None:
    with pytest.raises(EnvironmentFailed, match=r"environment 0 of shard 2 .*reward"):
        make.run(toy("Counter", kwargs={"reward": form}), 1, envs)


@in_turn
@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"reward": "late text"}, "the reward must be .*; got '2.5'"),
        ({"reward": "late None"}, "the reward must be .*; got None"),
        ({"end": "late text"}, "terminated must be True or False; got 'False'"),
        ({"end": "late None"}, "terminated must be True or False; got None"),
        ({"end": "late array"}, r"truncated must be True or .*; got array\(\[False, False\]\)"),
    ],
)
@pytest.mark.parametrize("frame_skip", [1, 3])
def test_a_late_value_of_another_kind_is_refused_with_seed_and_step(
    make: Maker, kwargs: dict[str, str], said: str, frame_skip: int
) -> None:
    """NumPy would make a number of a text, and NaN of None; Python takes any text for true."""
    step, seed = (3, 1)[frame_skip > 1], EpisodeSeeds(1, ROLE, 2, 0)[0]
    where = rf"environment 0 of shard 2 .* in step {step} of episode 0 \(seed {seed}\) .*"
    with pytest.raises(EnvironmentFailed, match=where + said):
        make.run(toy("Counter", kwargs=kwargs, frame_skip=frame_skip), 3)


@in_turn
def test_observations_are_copied_when_they_are_returned(make: Maker) -> None:
    plain = make.run(toy("Counter"), 33)
    mutated = make.run(toy("Mutated"), 33)
    assert same(plain, mutated)


@in_turn
def test_reset_options_reach_every_automatic_reset(make: Maker) -> None:
    driver = make.run(toy("Levels", kwargs={"length": 2}, reset_options={"level": 7}), 20)
    obs = driver.columns()[0]
    assert obs[:, :, 0].tolist() == [[step % 2] * 3 for step in range(21)]
    assert (obs[::2, :, 1] == 7).all()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [([], "float32"), ([3], "float64"), ([2, 3], "uint8"), ([4], "int64"), ([1], "float16"),
     ([2, 2, 2], "float32")],
)  # fmt: skip
def test_observations_and_actions_keep_shape_and_dtype(
    make: Maker, shape: list[int], dtype: str
) -> None:
    driver = make.run(toy("Typed", kwargs={"shape": shape, "dtype": dtype}), 6)
    actions = random_actions(driver.batch, 3, 6)
    obs, reward, *_ = driver.columns()
    assert (obs.dtype, obs.shape) == (np.dtype(dtype), (7, 3, *shape))
    assert obs.reshape(7, 3, -1)[:, 2, 0].tolist() == [0, 1, 2, 3, 0, 1, 2]
    expected = np.float32(actions[:3, 1].astype(np.float64).cumsum(0).sum(1))
    assert reward[:3, 1] == pytest.approx(expected, rel=1e-6)
    assert driver.batch.spec.action.dtype == "float64"


@pytest.mark.parametrize("room", ["int", "int64", "0-d"])
def test_discrete_observations(make: Maker, room: str) -> None:
    driver = make.run(toy("Rooms", kwargs={"room": room}), 6)
    assert driver.columns()[0][:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert driver.columns()[4].tolist() == [5, 5, 5]


# --- seeds --------------------------------------------------------------------------------------


def test_shards_environments_runs_and_roles_see_different_episodes(make: Maker) -> None:
    config = EnvironmentConfig(id="CartPole-v1")
    firsts = [
        make.run(config, 100, 2, seed=seed, shard=shard, role=role).columns()[0]
        for seed, shard, role in itertools.product((0, 1), range(4), (ROLE, Role.EVALUATION))
    ]
    every = [obs[:, env].tobytes() for obs in firsts for env in range(2)]
    assert len(set(every)) == 32


def test_constructors_are_seeded_by_run_shard_environment_and_incarnation(make: Maker) -> None:
    def maps(**kwargs: Any) -> list[float]:
        numbers: list[float] = make.run(toy("Map"), 1, 2, **kwargs).columns()[0][0, :, 1].tolist()
        return numbers

    first = maps()
    assert maps() == maps() == first
    every = [*first, *maps(incarnation=2), *maps(seed=7), *maps(shard=3)]
    assert len(set(every)) == 8
    assert maps(incarnation=2) == every[2:4]


# --- failures -----------------------------------------------------------------------------------


@in_turn
def test_an_exception_names_where_it_happened_and_its_cause(make: Maker) -> None:
    batch = make(toy("Counter", kwargs={"raise_at": 37, "length": 50}), shard=3)
    driver = Driver(batch, 3)
    actions = random_actions(batch, 3, 37)
    with pytest.raises(EnvironmentFailed) as caught:
        driver.run(actions)
    seed = EpisodeSeeds(1, ROLE, 3, 0)[0]
    assert caught.value.context == {
        "environment": "0", "shard": "3", "id": "FastLoopTest/Counter-v0", "incarnation": "1",
        "episode": "0", "seed": str(seed), "last action": str(actions[36, 0]),
        "step": "37", "cause": "ValueError: bad joint 7",
    }  # fmt: skip
    assert str(caught.value) == (
        "environment 0 of shard 3 ('FastLoopTest/Counter-v0', incarnation 1) failed in step 37 "
        f"of episode 0 (seed {seed}) with action {actions[36, 0]}: ValueError: bad joint 7"
    )
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(driver.reward) == 36


@in_turn
def test_a_failure_counts_steps_within_its_episode(make: Maker) -> None:
    with pytest.raises(EnvironmentFailed, match=r"in step 3 of episode 2 \(seed \d+\) with") as e:
        make.run(toy("Late"), 13, first_env=4)
    assert e.value.context["environment"] == "4"
    assert e.value.context["seed"] == str(EpisodeSeeds(1, ROLE, 2, 4)[2])


@in_turn
@pytest.mark.parametrize("fail_in", ["init", "reset"])
def test_a_failure_before_the_first_step_says_so(make: Maker, fail_in: str) -> None:
    words = {"init": "while it was made: RuntimeError: no licence", "reset": "RuntimeError: no map"}
    with pytest.raises(EnvironmentFailed, match=words[fail_in]):
        make.run(toy("Counter", kwargs={"fail_in": fail_in}), 1)


@in_turn
@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("shape", r"shape \(2,\) of float32"),
        ("broadcast", r"shape \(1,\) of float32"),
        ("dtype", r"shape \(3,\) of int64"),
        ("list", "a list"),
    ],
)
def test_an_observation_that_its_space_does_not_declare_is_refused(
    make: Maker, bad: str, said: str
) -> None:
    declared = r"its space declares shape \(3,\) of float32"
    with pytest.raises(EnvironmentFailed, match=f"in step 4.*{said}, {declared}"):
        make.run(toy("Counter", kwargs={"bad_at": 4, "bad": bad}), 6)


@in_turn
def test_a_discrete_observation_that_is_no_integer_is_refused(make: Maker) -> None:
    with pytest.raises(EnvironmentFailed, match="a float, its space declares"):
        make.run(toy("Rooms", kwargs={"room": "float"}), 1)


@pytest.mark.parametrize("nan_in", ["obs", "reward", "large reward"])
def test_a_value_that_is_not_finite_cuts_the_episode_at_the_last_good_observation(
    make: Maker, nan_in: str
) -> None:
    config = toy("Counter", kwargs={"nan_at": 4, "nan_in": nan_in, "length": 6})
    driver = make.run(config, 9, 2)
    obs, reward, terminated, truncated, final = driver.columns()
    assert obs[:, 0, 0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
    assert reward[:, 1].tolist() == [1, 2, 3, 0, 1, 2, 3, 4, 5]
    assert np.flatnonzero(truncated[:, 0]).tolist() == [3]
    assert not terminated.any()
    assert np.array_equal(final, obs[3])  # the observation before the step, of both
    finished = driver.batch.take_episodes()
    assert np.isnan(finished.returns).all(), "what they would have come to is not known"
    assert finished[1:3] == ([4, 4], 2)
    assert driver.batch.take_episodes().quarantined == 0
    assert np.argwhere(driver.quarantined).tolist() == [[3, 0], [3, 1]]
    for column in driver.columns():
        assert np.isfinite(column).all()


def test_a_termination_with_a_value_that_is_not_finite_becomes_a_truncation(make: Maker) -> None:
    driver = make.run(toy("Counter", kwargs={"nan_at": 5, "length": 5}), 5, 1)
    assert (driver.terminated[4][0], driver.truncated[4][0]) == (False, True)
    assert driver.final_obs[4][0, 0] == 4
    assert driver.quarantined[4].tolist() == [True]


def test_an_episode_that_begins_with_nan_is_given_up_for_the_next(make: Maker) -> None:
    driver = make.run(toy("Counter", kwargs={"nan_at": 0, "nan_in": "reset"}), 1, 2)
    drawn = [
        np.float32(np.random.default_rng(EpisodeSeeds(1, ROLE, 2, env)[1]).random())
        for env in range(2)
    ]
    assert driver.obs[0][:, 1].tolist() == drawn
    assert driver.batch.take_episodes()[:3] == ([], [], 2)
    assert not np.any(driver.quarantined), "the step itself is good"


def test_an_environment_that_always_begins_with_nan_fails(make: Maker) -> None:
    with pytest.raises(EnvironmentFailed, match="8 episodes in a row"):
        make.run(toy("Counter", kwargs={"nan_in": "reset"}), 1)


def test_large_but_finite_values_are_left_alone(make: Maker) -> None:
    config = toy("Counter", kwargs={"nan_at": 2, "nan_in": "nothing"}, nonfinite="fail")
    driver = make.run(config, 9)
    assert driver.obs[2][0, 1] == np.float32(-3e38)
    assert driver.reward[1][0] == np.float32(3e38)
    assert driver.batch.take_episodes()[:3] == ([3e38 + 13] * 3, [5] * 3, 0)


@pytest.mark.parametrize("nan_in", ["obs", "reward", "reset"])
def test_a_value_that_is_not_finite_can_end_the_run(make: Maker, nan_in: str) -> None:
    at = 0 if nan_in == "reset" else 4
    config = toy("Counter", kwargs={"nan_at": at, "nan_in": nan_in}, nonfinite="fail")
    with pytest.raises(EnvironmentFailed, match="NaN or infinite"):
        make.run(config, 9)


# --- progress, state, close ---------------------------------------------------------------------


@in_turn
def test_progress_words_tell_where_a_dead_process_was(make: Maker) -> None:
    words = memoryview(bytearray(8 * progress_words(3))).cast("q")
    config = toy("Late")
    batch = make(config, progress=words, first_env=10)
    assert read_progress(words, seed=1, role=ROLE, shard=2, first_env=10) == {
        "environment": "10",
        "shard": "2",
    }
    driver = Driver(batch, 3)
    assert words[ProgressWord.ENV] == 2
    with pytest.raises(EnvironmentFailed) as caught:
        driver.run(random_actions(batch, 3, 20))
    assert batch.position == 10
    assert words[ProgressWord.STEP] == 13
    at = read_progress(words, seed=1, role=ROLE, shard=2, first_env=10)
    assert at == {name: caught.value.context[name] for name in at}
    assert (at["episode"], at["step"], len(at)) == ("2", "3", 5)


@pytest.mark.parametrize(("envs", "names"), [(3, "10 to 12"), (1, "10")])
def test_progress_words_blame_none_of_those_that_are_stepped_at_once(envs: int, names: str) -> None:
    words = memoryview(bytearray(8 * progress_words(envs))).cast("q")
    batch = vectorised(toy("Counter"), seed=1, shard=2, envs=envs, progress=words, first_env=10)
    driver = Driver(batch, envs)
    driver.run(random_actions(batch, envs, 3))
    at = read_progress(words, seed=1, role=ROLE, shard=2, first_env=10)
    assert (at["environment"], at["shard"]) == (names, "2")
    assert at.get("step") == ("3" if envs == 1 else None)
    assert batch.position == 10
    batch.close()


def test_a_state_holds_open_episodes_only(make: Maker) -> None:
    batch = make.run(toy("Counter", kwargs={"length": 10}), 3000, 2).batch
    batch.take_episodes()
    assert len(batch.state()) < 500


def anew(
    make: Maker, state: bytes, config: EnvironmentConfig, **kwargs: Any
) -> tuple[dict[int, str], Driver]:
    """Why environments did not go on with ``state``, and the batch, which has taken more steps."""
    batch = make(config, **kwargs)
    obs = np.zeros((3, 3), np.float32)
    lost = batch.restore(state, obs)
    return lost, Driver(batch, 3, obs).run(random_actions(batch, 3, 12))


@pytest.mark.parametrize("name", ["Unrepeatable", "Drifting"])
def test_an_environment_that_does_not_come_back_begins_the_next_episode(
    make: Maker, name: str
) -> None:
    state = make.run(toy(name), 7).batch.state()
    lost, driver = anew(make, state, toy(name))
    assert sorted(lost) == [0, 1, 2]
    for env, why in lost.items():
        assert f"environment {env} of shard 2" in why
        assert "episode 1" in why and "the 2 actions" in why
    assert driver.batch.take_episodes().lengths[:3] == [5, 5, 5], "whole ones, from their reset"


def test_different_rewards_are_noticed_when_restoring(make: Maker) -> None:
    state = make.run(toy("Counter"), 2).batch.state()
    mended = toy("Counter", kwargs={"nan_at": 2, "nan_in": "large reward"})
    lost, _ = anew(make, state, mended)
    assert "rewards add up to 1e+39, not 3.0" in lost[1]


def test_an_episode_that_ends_early_is_noticed_when_restoring(make: Maker) -> None:
    state = make.run(toy("Counter"), 4).batch.state()
    lost, _ = anew(make, state, toy("Counter", kwargs={"length": 3}))
    assert "the episode ended at step 3" in lost[2]


def test_an_environment_that_raises_when_restoring_begins_the_next_episode(make: Maker) -> None:
    state = make.run(toy("Counter"), 4).batch.state()
    batch, obs = make(toy("Counter", kwargs={"raise_at": 3})), np.zeros((3, 3), np.float32)
    lost = batch.restore(state, obs)
    assert sorted(lost) == [0, 1, 2] and "failed in" in lost[0]
    assert (obs[:, 0] == 0).all()


def test_only_what_did_not_come_back_begins_anew(make: Maker) -> None:
    stopped = make.run(toy("Counter", kwargs={"length": 100}), 4)
    state = msgspec.msgpack.decode(stopped.batch.state(), type=BatchState)
    state.open[1] = replace(state.open[1], total=-1.0)
    batch, obs = make(toy("Counter", kwargs={"length": 100})), np.zeros((3, 3), np.float32)
    assert list(batch.restore(encode_state(state), obs)) == [1]
    for env in (0, 2):
        assert np.array_equal(obs[env], stopped.obs[-1][env])
    assert not np.array_equal(obs[1], stopped.obs[-1][1])
    again, other = make(toy("Counter", kwargs={"length": 100})), np.zeros_like(obs)
    assert again.restore(batch.state(), other) == {}, "what it saves now is whole"
    assert np.array_equal(other, obs)


@pytest.mark.parametrize("kwargs", [{"seed": 2}, {"shard": 1}])
def test_episodes_of_other_seeds_are_not_gone_on_with(make: Maker, kwargs: dict[str, Any]) -> None:
    state = make.run(toy("Counter"), 4).batch.state()
    lost, _ = anew(make, state, toy("Counter"), **kwargs)
    assert len(lost) == 3 and "resets that episode with" in lost[0]


def test_a_state_of_another_number_of_environments_is_refused(make: Maker) -> None:
    state = make.run(toy("Counter"), 4).batch.state()
    with pytest.raises(CheckpointError, match=r"of 3 environments .* has 4"):
        make(toy("Counter"), envs=4).begin_restore(state)


@pytest.mark.parametrize("state", [b"", b"\x00\x01", b"\x93\x01\x02\x03"])
def test_a_damaged_state_is_refused(make: Maker, state: bytes) -> None:
    with pytest.raises(CheckpointError, match="damaged"):
        make(toy("Counter")).begin_restore(state)


def test_without_kept_actions_a_restored_batch_begins_the_next_episodes(make: Maker) -> None:
    batch = make.run(toy("Counter"), 7, keep_actions=False).batch
    restored = make(toy("Counter"), keep_actions=False)
    obs = np.zeros((3, 3), np.float32)
    assert len(restored.restore(batch.state(), obs)) == 3
    drawn = [
        np.float32(np.random.default_rng(EpisodeSeeds(1, ROLE, 2, env)[2]).random())
        for env in range(3)
    ]
    assert obs[:, 1].tolist() == drawn
    assert restored.take_episodes().lengths == [5, 5, 5]


def test_each_environment_is_closed_once(make: Maker) -> None:
    Counter.closed.clear()
    batch = make(toy("Counter"))
    batch.close()
    batch.close()
    assert len(Counter.closed) == len(set(Counter.closed)) == 3


@in_turn
def test_all_are_closed_although_one_raises(make: Maker) -> None:
    Counter.closed.clear()
    batch = make(toy("Counter", kwargs={"fail_in": "close"}))
    with pytest.raises(EnvironmentFailed, match=r"environment 0 .* in close: RuntimeError: window"):
        batch.close()
    assert len(Counter.closed) == 3
    batch.close()
    assert len(Counter.closed) == 3


@in_turn
def test_environments_made_before_a_failing_constructor_are_closed(make: Maker) -> None:
    Counter.closed.clear()

    class Third(Counter):
        made = 0

        def __init__(self) -> None:
            Third.made += 1
            super().__init__(fail_in="init" if Third.made == 3 else "")

    gymnasium.registry.pop("FastLoopTest/Third-v0", None)
    gymnasium.register("FastLoopTest/Third-v0", entry_point=Third)
    with pytest.raises(EnvironmentFailed, match=r"environment 2 .*no licence"):
        make(toy("Third"))
    assert len(Counter.closed) == 2
