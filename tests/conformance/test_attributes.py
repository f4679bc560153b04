"""What `environment.attributes` are set to, and when, whatever steps the environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from fast_core.config import EnvironmentConfig, WrapperConfig
from fast_core.envs.instance import Instance
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from fast_core.system.seeding import Role
from tests.conformance.adapters import Maker, in_turn, vectorised
from tests.envs.driver import Driver, random_actions, toy
from tests.envs.vector_toys import as_vector

STEP, PULL, DRAWN = 0, 1, 2


def pulled(pull: Any = 2.0, **kwargs: Any) -> EnvironmentConfig:
    return toy("Pulled", attributes={"pull": pull}, kwargs={"length": 4, **kwargs})


def change(driver: Driver, pull: Any) -> list[int]:
    obs = driver.obs[-1].copy()
    again = driver.batch.change({"pull": pull}, obs)
    driver.obs[-1] = obs
    return again


def go(driver: Driver, steps: int) -> Driver:
    return driver.run(random_actions(driver.batch, driver.envs, steps))


def column(driver: Driver, name: int) -> list[list[float]]:
    found: list[list[float]] = np.array(driver.obs)[:, :, name].tolist()
    return found


def test_attributes_are_set_before_every_reset(make: Maker) -> None:
    driver = make.run(pulled(3.0), 10, 2)
    assert column(driver, PULL) == [[3.0, 3.0]] * 11


def test_each_reset_gets_values_of_its_own(make: Maker) -> None:
    driver = make.run(pulled([1.0, 2.0]), 10, 2)
    assert column(driver, PULL) == [[3.0, 3.0]] * 11


def test_change_holds_for_episodes_that_begin_after_it(make: Maker) -> None:
    driver = make.run(pulled(), 2, 2)
    assert change(driver, 5.0) == []
    go(driver, 5)
    assert column(driver, PULL)[:4] == [[2.0, 2.0]] * 4, "open ones keep what they began with"
    assert column(driver, PULL)[4:] == [[5.0, 5.0]] * 4


def test_change_holds_for_episodes_that_have_no_step_yet(make: Maker) -> None:
    """They are begun again with their own seeds."""
    plain = make.run(pulled(), 12, 2)
    driver = make.run(pulled(), 4, 2)
    assert column(driver, STEP)[-1] == [0.0, 0.0]
    assert change(driver, 5.0) == [0, 1]
    assert column(driver, PULL)[-1] == [5.0, 5.0]
    go(driver, 8)
    assert column(driver, PULL)[4:] == [[5.0, 5.0]] * 9
    assert column(driver, DRAWN) == column(plain, DRAWN)


def test_restored_episodes_are_stepped_again_with_what_they_began_with(make: Maker) -> None:
    driver = make.run(pulled(), 2, 2)
    change(driver, 5.0)
    state = driver.batch.state()
    batch = make(pulled(5.0), 2)
    obs = np.zeros_like(driver.obs[0])
    assert batch.restore(state, obs) == {}
    assert batch.state() == state
    rest = go(Driver(batch, 2, obs), 6)
    assert column(rest, PULL) == [[2.0, 2.0]] * 2 + [[5.0, 5.0]] * 5
    assert column(go(driver, 6), PULL)[2:] == column(rest, PULL)


def test_environments_whose_episodes_begin_at_other_times_keep_their_own_values(
    make: Maker,
) -> None:
    driver = make.run(pulled(uneven=True), 7, 3)
    change(driver, 5.0)
    go(driver, 20)
    steps, pulls = column(driver, STEP), column(driver, PULL)
    for env in range(3):
        pull = 2.0
        for t in range(28):
            if steps[t][env] == 0:
                pull = 2.0 if t < 7 else 5.0
            assert pulls[t][env] == pull
    assert pulls[9] not in ([2.0] * 3, [5.0] * 3), "some are older than the change"


@pytest.mark.parametrize("limits", [(3, 5), (9, 2)], ids=["shorter", "longer than registered"])
def test_time_limit_of_the_wrapper_that_make_adds_is_such_an_attribute(
    make: Maker, limits: tuple[int, int]
) -> None:
    """Steps go past that wrapper, for speed, where none of its attributes is set."""
    kwargs = {"length": 100, "max_episode_steps": 7}
    config = toy("Counter", attributes={"_max_episode_steps": limits[0]}, kwargs=kwargs)
    driver = go(make.run(config, 0, 2), limits[0] - 1)
    driver.batch.change({"_max_episode_steps": limits[1]}, driver.obs[-1].copy())
    go(driver, 1 + 2 * limits[1])
    assert driver.batch.take_episodes().lengths == [limits[0]] * 2 + [limits[1]] * 4
    assert np.array(driver.truncated)[driver.ended].all()
    assert not np.array(driver.terminated).any()


def shortened(env: Any) -> Any:
    assert env.spec.max_episode_steps == 7  # which is kept
    env._max_episode_steps = 2
    return env


@in_turn
def test_time_limit_is_the_one_that_the_wrapper_has(make: Maker) -> None:
    wrapper = WrapperConfig(name=f"{__name__}:shortened")
    config = toy("Counter", kwargs={"max_episode_steps": 7}, wrappers=(wrapper,))
    assert make.run(config, 5, 1).batch.take_episodes().lengths == [2, 2]


class Heavier(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Has an attribute of its own."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.weight = 0.0

    def reset(self, **kwargs: Any) -> Any:
        obs, info = self.env.reset(**kwargs)
        obs[DRAWN] = self.weight
        return obs, info


@in_turn
def test_wrapper_may_have_the_attribute(make: Maker) -> None:
    wrapper = WrapperConfig(name=f"{__name__}:Heavier")
    config = toy("Pulled", attributes={"pull": 2.0, "weight": 7.0}, wrappers=(wrapper,))
    assert make.run(config, 0, 1).obs[0].tolist() == [[0.0, 2.0, 7.0]]


@pytest.mark.parametrize(
    ("name", "text"),
    [("pul", r"'pul' is none\. Nearest: 'pull'"), ("step", r"'step' is a method")],
)
def test_what_is_no_attribute_is_refused(name: str, text: str) -> None:
    config = toy("Pulled", attributes={name: 1.0})
    with pytest.raises(ConfigError, match=text):
        Instance(config, seed=0, role=Role.PROBE, shard=0, index=0, incarnation=1)


def test_what_is_no_attribute_of_a_vectorised_form_is_refused_when_it_is_tried() -> None:
    """Its `set_attr` makes attributes that nobody reads."""
    config = as_vector(toy("Pulled", attributes={"pul": 1.0}))
    with pytest.raises(ConfigError, match=r"'pul' is none\. Nearest: 'pull'"):
        probe(config, seed=1)


def test_vectorised_form_without_single_values_is_refused() -> None:
    config = EnvironmentConfig(id="CartPole-v1", attributes={"gravity": 9.8})
    with pytest.raises(ConfigError, match=r"must have `set_attr\(name, values\)`"):
        vectorised(config, seed=0, shard=0, envs=2)
