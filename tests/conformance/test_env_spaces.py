"""Composite observations, several choices at once, masks and repeated actions in every adapter."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.errors import EnvironmentFailed
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.conformance.adapters import Maker, in_turn
from tests.envs.driver import Driver, same, toy

ROLE = Role.ENVIRONMENT_EPISODE


# --- composite observations ---------------------------------------------------------------------

LEAVES = ["arm/drawn", "arm/joints", "camera", "goal/0", "goal/1", "touch"]


@pytest.mark.parametrize("envs", [1, 3])
def test_leaves_have_the_same_names_shapes_and_dtypes_for_any_number_of_environments(
    make: Maker, envs: int
) -> None:
    obs = make.play(toy("Robot"), 6, envs).columns()[0]
    found = {name: (obs[name].shape[2:], str(obs[name].dtype)) for name in obs.dtype.names}
    assert obs.shape == (7, envs)
    assert found == {
        "arm/joints": ((3,), "float32"),
        "arm/drawn": ((), "float64"),
        "camera": ((2, 3, 1), "uint8"),
        "goal/0": ((), "int64"),
        "goal/1": ((2,), "int64"),
        "touch": ((2,), "int8"),
    }


def test_every_leaf_is_of_its_own_step(make: Maker) -> None:
    driver = make.play(toy("Robot"), 7)
    obs, *_, final = driver.columns()
    for name in ("arm/joints", "camera", "goal/0", "goal/1"):
        values = obs[name].reshape(8, 3, -1)
        assert values[:, 1].tolist() == [
            [step] * values.shape[2] for step in (0, 1, 2, 3, 4, 0, 1, 2)
        ]
        assert (final[name] == 5).all()
    assert obs["touch"][:5, 0].tolist() == [[0, 0], [1, 1]] * 2 + [[0, 0]]
    for env in range(3):
        draws = [np.random.default_rng(EpisodeSeeds(1, ROLE, 2, env)[k]).random() for k in (0, 1)]
        assert obs["arm/drawn"][:, env].tolist() == [draws[0]] * 5 + [draws[1]] * 3


@pytest.mark.parametrize("form", ["reversed", "shared"])
def test_order_of_keys_and_shared_objects_make_no_difference(make: Maker, form: str) -> None:
    plain = make.play(toy("Robot"), 33)
    assert same(plain, make.play(toy("Robot", kwargs={"form": form}), 33))
    assert plain.columns()[0]["camera"].any()


def test_a_stored_composite_observation_owns_its_bytes(make: Maker) -> None:
    """Whatever the simulator does to the objects it returned, each row is of its own step."""
    steps, envs = 400, 20
    driver = make.play(toy("Robot", kwargs={"form": "shared", "length": 90}), steps, envs)
    obs = driver.columns()[0]
    after, ended = obs[1:].copy(), driver.ended
    after[ended] = np.array(driver.final_obs)[ended]
    for name in ("arm/joints", "goal/0", "goal/1", "camera"):
        assert (after[name] == obs[:-1][name] + 1).all()
    assert ended.sum() == steps // 90 * envs


@in_turn
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("missing", r"part 'arm' of the observation lacks the keys \['drawn'\]"),
        ("undeclared", r"part 'arm/spare' .* has the undeclared keys \['x'\]"),
        ("dtype", r"part 'camera' .* of int64, its space declares .* of uint8"),
        ("array", "the observation is a ndarray, its space declares a dict of 5"),
    ],
)
def test_a_leaf_that_its_space_does_not_declare_is_named(
    make: Maker, fault: str, said: str
) -> None:
    with pytest.raises(EnvironmentFailed, match=rf"environment 0 of shard 2.*in step 3.*{said}"):
        make.play(toy("Robot", kwargs={"fault": fault}), 3)
    with pytest.raises(EnvironmentFailed, match=f"in reset.*{said}"):
        make.play(toy("Robot", kwargs={"fault": fault, "at": 0}), 1)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("choice", "part 'goal/0' of the observation is 98, its .* choices from -1 to 97"),
        ("choices", r"part 'goal/1' of the observation is -1 at \[1\], .* choices from 0 to 98"),
    ],
)
def test_a_choice_outside_of_its_space_is_named(make: Maker, fault: str, said: str) -> None:
    """One-hot rows would have it in the place of another choice, or of another part."""
    for at, when in ((0, "in reset"), (3, "in step 3"), (5, "in step 5")):
        seed = EpisodeSeeds(1, ROLE, 2, 0)[0]
        where = rf"environment 0 of shard 2.*{when} of episode 0 \(seed {seed}\).*"
        with pytest.raises(EnvironmentFailed, match=where + said):
            make.play(toy("Robot", kwargs={"fault": fault, "at": at}), 5)


@pytest.mark.parametrize("fault", ["nan", "inf"])
def test_a_leaf_that_is_not_finite_cuts_the_episode(make: Maker, fault: str) -> None:
    driver = make.play(toy("Robot", kwargs={"fault": fault}), 4)
    obs = driver.columns()[0]
    assert obs["camera"][:, 1, 0, 0, 0].tolist() == [0, 1, 2, 0, 1]
    assert np.array(driver.truncated)[:, 1].tolist() == [False, False, True, False]
    assert (driver.final_obs[2]["arm/joints"] == 2).all()
    assert np.isfinite(obs["arm/drawn"]).all()
    assert driver.batch.take_episodes().quarantined == 3


# --- several choices at once --------------------------------------------------------------------


@pytest.mark.parametrize("actions", ["", "grid", "binary"])
def test_choices_arrive_with_their_shape_dtype_and_starts(make: Maker, actions: str) -> None:
    """The toy refuses others and returns their sum."""
    driver = Driver(make(toy("Robot", kwargs={"actions": actions})), 3)
    taken = driver.play(40)
    assert taken.dtype == np.dtype(driver.batch.spec.action.dtype)
    expected = taken.reshape(40, 3, -1).sum(axis=-1)
    assert np.array(driver.reward).tolist() == expected.tolist()
    assert len(np.unique(taken.reshape(40 * 3, -1), axis=0)) > 4


# --- masks --------------------------------------------------------------------------------------

MASKED = {
    "obs": ("open", ("open", "step")),
    "info": ("info.doors", ("obs", "action_mask")),
    "info of dict": ("info.doors", ("step", "action_mask")),
}


WHEN = {0: "in reset", 2: "in step 2"}


def doors(where: str, **kwargs: Any) -> EnvironmentConfig:
    return toy("Doors", kwargs={"where": where} | kwargs, action_mask=MASKED[where][0])


@pytest.mark.parametrize("where", MASKED)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "bool", "int64"])
def test_the_mask_is_a_part_of_the_observation(
    make: Maker, where: str, many: bool, dtype: str
) -> None:
    """The toy raises if an action is taken that it forbade."""
    driver = make.play(doors(where, many=many, dtype=dtype), 40)
    obs, spec = driver.columns()[0], driver.batch.spec
    assert obs.dtype.names == MASKED[where][1]
    assert spec.action_mask == ("open" if where == "obs" else "action_mask")
    masks = obs[spec.action_mask]
    assert (masks.dtype, masks.shape) == (np.bool_, (41, 3, 5 if many else 4))
    assert len(np.unique(masks.reshape(-1, masks.shape[2]), axis=0)) > 5
    step = "obs" if where == "info" else "step"
    assert obs[step][:, 0, 1].tolist() == [step % 6 for step in range(41)]


@pytest.mark.parametrize("where", MASKED)
def test_masks_are_those_of_the_environment(make: Maker, where: str) -> None:
    config = doors(where, many=True)
    driver = Driver(make(config), 3)
    actions = driver.play(6)
    spec = driver.batch.spec
    kwargs: dict[str, Any] = dict(config.kwargs)
    single = gymnasium.make(config.id, disable_env_checker=True, **kwargs).unwrapped
    single.reset(seed=EpisodeSeeds(1, ROLE, 2, 1)[0])
    for t in range(6):
        expected = np.concatenate(single.masks)  # type: ignore[attr-defined]
        assert driver.obs[t][spec.action_mask][1].tolist() == expected.tolist()
        single.step(actions[t, 1])
    expected = np.concatenate(single.masks)  # type: ignore[attr-defined]
    assert driver.final_obs[5][spec.action_mask][1].tolist() == expected.tolist()


@pytest.mark.parametrize("where", MASKED)
@pytest.mark.parametrize("at", [0, 2])
def test_a_mask_that_allows_nothing_is_an_error(make: Maker, where: str, at: int) -> None:
    said = r"mask \(environment.action_mask\) allows no action in dimension 1"
    with pytest.raises(EnvironmentFailed, match=f"environment 0 .*{WHEN[at]} of episode 0.*{said}"):
        make.play(doors(where, many=True, fault="empty", at=at), 3)


@pytest.mark.parametrize("steps", [6, 2])
def test_a_mask_of_a_later_reset_that_allows_nothing_is_an_error(make: Maker, steps: int) -> None:
    """Of one that a change of attributes begins again, and of one after an episode."""
    config = replace(doors("obs", many=True, at=0), attributes={"fault": ""})
    driver = make.play(config, steps)
    said = r"environment 0 .* in reset of episode 1 \(seed \d+\): its action mask .* allows no"
    with pytest.raises(EnvironmentFailed, match=said):
        driver.batch.change({"fault": "empty"}, driver.obs[-1])
        driver.play(6)


@in_turn
@pytest.mark.parametrize("where", MASKED)
@pytest.mark.parametrize("at", [0, 2])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("size", r"has shape \(4,\) of int8, its space declares shape \(5,\)"),
        ("float", r"has shape \(5,\) of float32"),
    ],
)
def test_a_wrong_mask_is_an_error(make: Maker, where: str, at: int, fault: str, said: str) -> None:
    said = f"{WHEN[at]} of episode 0.*part '(open|action_mask)' of the observation {said}"
    with pytest.raises(EnvironmentFailed, match=f"environment 0 .*{said}"):
        make.play(doors(where, many=True, fault=fault, at=at), 3)


@in_turn
@pytest.mark.parametrize("at", [0, 2])
def test_a_mask_that_is_missing_in_the_info_is_an_error(make: Maker, at: int) -> None:
    with pytest.raises(EnvironmentFailed, match=r"info lacks 'doors'.*environment\.action_mask"):
        make.play(doors("info", fault="missing", at=at), 3)


@pytest.mark.parametrize(
    ("where", "fault"), [("obs", "empty"), ("info", "empty"), ("info", "missing")]
)
def test_the_mask_of_a_final_observation_does_not_matter(
    make: Maker, where: str, fault: str
) -> None:
    driver = make.play(doors(where, fault=fault, at=6), 14)
    final = driver.final_obs[5][driver.batch.spec.action_mask]
    assert final.any() == (fault == "missing")
    assert driver.batch.take_episodes().lengths == [6] * 6


# --- repeated actions ---------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("limit", [None, 5])
def test_repeated_actions_add_up_rewards_and_stop_at_an_end(
    make: Maker, end: str, limit: int | None
) -> None:
    """Seven steps of the toy, three to each of the run's: 3, 3, 1; or 3, 2 with a limit of 5."""
    kwargs: dict[str, Any] = {"end": end}
    if limit is not None:
        kwargs["max_episode_steps"] = limit
    driver = Driver(make(toy("Ticks", kwargs=kwargs, frame_skip=3)), 3)
    actions = driver.play(12)
    counts = [3, 3, 1] if limit is None else [3, 2]
    ticks = np.cumsum([0, *counts])
    length = len(counts)
    for t in range(12):
        first, last = ticks[t % length], ticks[t % length + 1]
        reward = sum(float(actions[t, 0, 0]) + tick for tick in range(first + 1, last + 1))
        assert driver.reward[t][0] == np.float32(reward)
        ended = t % length == length - 1
        after = driver.final_obs[t] if ended else driver.obs[t + 1]
        assert after[0, 0, 0] - driver.obs[t // length * length][0, 0, 0] == last
        assert driver.truncated[t][0] == (ended and (end == "truncated" or limit is not None))
        assert driver.terminated[t][0] == (ended and end == "terminated" and limit is None)
    assert driver.batch.take_episodes().lengths == [length] * (12 // length * 3)
    assert driver.batch.spec.max_episode_steps == (None if limit is None else 2)


# --- exact resume -------------------------------------------------------------------------------


def test_a_different_leaf_is_noticed_when_restoring(make: Maker) -> None:
    state = make.play(toy("Robot"), 3).batch.state()
    batch = make(toy("Robot", kwargs={"fault": "nan", "at": 3}))
    lost = batch.restore(state, np.zeros(3, batch.spec.row.row_dtype))
    assert "the observation differs" in lost[0]


def test_environments_emit_single_frames_where_they_are_stacked(make: Maker) -> None:
    driver = make.play(toy("Ticks", frame_stack=3), 9)
    assert driver.batch.spec.observation.shape == (3, 2, 2)
    assert driver.columns()[0].shape == (10, 3, 2, 2)
    assert same(driver, make.play(toy("Ticks"), 9))
