"""Vectorised forms that reset by themselves, in the step after an episode's end (NextStep)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from fast_core.errors import ConfigError, EnvironmentFailed
from tests.conformance.test_vector_batch import next_step, run, same_step
from tests.envs.driver import Driver, random_actions, toy


def steps_of(driver: Driver, env: int) -> list[Any]:
    """What one environment did, without the steps that were left out."""
    after = np.where(driver.ended[..., None], np.array(driver.final_obs), np.array(driver.obs)[1:])
    parts = driver.obs, driver.reward, driver.terminated, driver.truncated, after
    taken = ~np.array(driver.quarantined)[:, env]
    return [[row[env].tolist() for row, keep in zip(p, taken, strict=False) if keep] for p in parts]


@pytest.mark.parametrize("end", ["terminated", "truncated", "both", "limit"])
def test_resets_in_the_next_step_lead_to_the_same_rows_as_in_the_same_one(end: str) -> None:
    """Episodes end apart; every environment takes the same actions in its own steps."""
    kwargs: dict[str, Any] = {"length": 4, "end": end}
    if end == "limit":
        kwargs = {"length": 99, "max_episode_steps": 5}
    config, envs, steps = toy("Uneven", kwargs=kwargs), 3, 40
    same_driver = run(same_step(config, seed=1, shard=2, envs=envs), envs, steps)
    actions = random_actions(same_driver.batch, envs, steps)
    driver, own = Driver(next_step(config, envs=envs), envs), [0] * envs
    for _ in range(steps):
        driver.run([actions[own, np.arange(envs)]])
        own = [t + (not gone) for t, gone in zip(own, driver.quarantined[-1], strict=True)]
    for env in range(envs):
        mine, wanted = steps_of(driver, env), steps_of(same_driver, env)
        assert mine == [part[: len(mine[1])] for part in wanted]
        assert len(mine[1]) == own[env] < steps
    finished, wanted = driver.batch.take_episodes(), same_driver.batch.take_episodes()
    assert len(finished.lengths) > 12 and set(finished.lengths) <= set(wanted.lengths)
    assert (finished.quarantined, len(finished.returns)) == (0, len(finished.lengths))


def test_step_in_which_an_episode_begins_is_left_out_as_one_of_its_own() -> None:
    driver = run(next_step(toy("Counter", kwargs={"length": 2}), envs=1), 1, 7)

    def first(part: list[Any]) -> list[float]:
        return np.array(part).reshape(len(part), -1)[:, 0].tolist()

    assert first(driver.obs) == [0, 1, 2, 0, 1, 2, 0, 1]
    assert first(driver.quarantined) == [0, 0, 1, 0, 0, 1, 0]
    assert first(driver.terminated) == [0, 1, 0, 0, 1, 0, 0]
    assert first(driver.truncated) == [0, 0, 1, 0, 0, 1, 0]
    assert first(driver.reward) == [1, 2, 0, 1, 2, 0, 1]
    assert first(driver.final_obs) == [99, 2, 2, 99, 2, 2, 99]
    assert driver.batch.take_episodes() == ([3.0, 3.0], [2, 2], 0, ({}, {}))
    assert (driver.batch.present(0).episode, driver.batch.present(0).step) == (2, 1)


def test_before_an_episode_begins_late_any_action_will_do() -> None:
    """The mask of an episode's end may forbid everything."""
    config = toy("Doors", action_mask="open", kwargs={"fault": "empty", "at": 6, "length": 6})
    driver = Driver(next_step(config, envs=2), 2)
    driver.play(20)
    assert np.array(driver.quarantined).sum() == 2 * 2
    assert not driver.final_obs[5]["open"].any() and driver.obs[6]["open"].all()


@pytest.mark.parametrize("nan_in", ["obs", "reward"])
def test_value_that_is_not_finite_can_only_be_cut_where_the_library_ends(nan_in: str) -> None:
    kwargs = {"length": 3, "nan_at": 3, "nan_in": nan_in}
    driver = run(next_step(toy("Counter", kwargs=kwargs), envs=1), 1, 7)
    assert np.array(driver.quarantined)[:, 0].tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert driver.batch.take_episodes().quarantined == 1
    with pytest.raises(EnvironmentFailed, match="its episode must be cut"):
        run(next_step(toy("Counter", kwargs={**kwargs, "length": 4}), envs=1), 1, 7)


@pytest.mark.parametrize("spoiled", [9.0, np.nan])
def test_what_is_said_of_a_step_that_was_none_does_not_matter(
    spoiled: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it what another one ends with in that step."""
    real, both = SyncVectorEnv.step, []

    def step(self: Any, action: Any) -> Any:
        began = self._autoreset_envs.copy()
        obs, reward, terminated, truncated, info = real(self, action)
        reward[began] = spoiled
        if began.any() and (terminated & ~began).any():
            both.append(True)
            obs[terminated] = spoiled
        return obs, reward, terminated, truncated, info

    monkeypatch.setattr(SyncVectorEnv, "step", step)
    driver = run(next_step(toy("Uneven"), envs=3), 3, 40)
    assert both and np.array(driver.quarantined).any()
    assert not np.array(driver.reward)[np.array(driver.quarantined)].any()
    assert np.isfinite(driver.obs).all()


def test_an_episode_that_ends_where_it_begins_late_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its library would reset it again, which nobody could tell from a step."""
    real = SyncVectorEnv.step

    def step(self: Any, action: Any) -> Any:
        obs, reward, *_, info = real(self, action)
        always = np.ones(1, np.bool_)
        return obs, reward, always, ~always, info

    monkeypatch.setattr(SyncVectorEnv, "step", step)
    with pytest.raises(EnvironmentFailed, match="ended in the step in which it resets"):
        run(next_step(toy("Counter"), envs=1), 1, 2)


def test_late_reset_to_what_is_not_finite_is_an_error() -> None:
    batch = next_step(toy("Counter", kwargs={"length": 2, "nan_in": "reset", "nan_at": 2}), envs=1)
    with pytest.raises(EnvironmentFailed, match="1 episodes in a row began with an observation"):
        run(batch, 1, 7)


@pytest.mark.parametrize("form", [same_step, next_step])
def test_options_that_only_the_first_reset_would_get_are_refused(form: Any) -> None:
    with pytest.raises(ConfigError, match=r"reset_options can't be passed on.*resets .* itself"):
        form(toy("Levels", reset_options={"level": 7}), seed=0, shard=0, envs=2)
