"""`make_env` gives what training steps, observation for observation."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core import Config, ConfigError, make_env
from fast_core.config import AtariConfig, EnvironmentConfig, WrapperConfig
from fast_core.envs.frames import FrameStack
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from tests.envs.driver import Driver
from tests.envs.toy import Counter

WRAPPER = "gymnasium.wrappers:FlattenObservation"
CASES = {
    "plain": {"id": "CartPole-v1"},
    "repeated": {"id": "CartPole-v1", "frame_skip": 3},
    "stacked": {"id": "Pendulum-v1", "frame_stack": 3, "wrappers": [WRAPPER]},
    "atari": {"id": "ALE/Pong-v5", "atari": {"noop_max": 5}, "frame_stack": 2},
    "attributes": {"id": "Pendulum-v1", "attributes": {"g": 3.0}},
    "options": {"id": "CartPole-v1", "reset_options": {"low": -0.01, "high": 0.01}},
}


def trained_in(keys: dict[str, Any], seed: int) -> tuple[GymnasiumBatch, int]:
    given = dict(keys)
    given["wrappers"] = tuple(WrapperConfig(name=name) for name in given.get("wrappers", ()))
    if "atari" in given:
        given["atari"] = AtariConfig(**given["atari"])
    config = EnvironmentConfig(**given)
    return GymnasiumBatch(config, seed=seed, shard=0, envs=1), config.frame_stack


@pytest.mark.parametrize("case", CASES)
def test_same_observations_and_rewards_as_in_training(case: str) -> None:
    pytest.importorskip("ale_py") if case == "atari" else None
    keys = CASES[case]
    batch, frames = trained_in(keys, seed=7)
    env = make_env(keys["id"], seed=7, **{k: v for k, v in keys.items() if k != "id"})
    space = batch.spec.row
    driver, stack = Driver(batch, 1), FrameStack(1, space, frames)
    stack.push(driver.obs[0], np.ones(1, np.bool_))
    obs, _ = env.reset()
    assert env.observation_space.contains(obs)
    for step in range(120):
        np.testing.assert_array_equal(obs, stack.array[0] if frames > 1 else driver.obs[-1][0])
        action = np.array([np.sin(step)], np.float32) if "Pendulum" in keys["id"] else step % 2
        driver.run([np.array([action])])
        obs, own, terminated, truncated, _ = env.step(action)
        assert np.float32(own) == driver.reward[-1]
        assert (terminated, truncated) == (driver.terminated[-1], driver.truncated[-1])
        if terminated or truncated:
            obs, _ = env.reset()
        stack.push(driver.obs[-1], driver.ended[-1])
    batch.close()
    env.close()


def test_environment_of_a_configuration_a_file_a_class_and_a_function(tmp_path: Path) -> None:
    tree = {
        "name": "x",
        "seed": 5,
        "environment": {"id": Counter, "kwargs": {"length": 3}},
        "algorithm": {"name": "ppo"},
        "stop": {"updates": 1},
    }
    config = Config(tree)
    (tmp_path / "x.yaml").write_text(str(config))
    first = make_env(Counter, seed=5).reset()[0]
    sent = Config(tree, environment=lambda: Counter())
    for what in (config, tree, tmp_path / "x.yaml", str(tmp_path / "x.yaml"), sent):
        np.testing.assert_array_equal(make_env(what).reset()[0], first)
    assert make_env(lambda: Counter(length=9)).unwrapped.length == 9  # type: ignore[attr-defined]
    assert make_env(Counter, kwargs={"length": 8}).unwrapped.length == 8  # type: ignore[attr-defined]
    assert type(make_env(lambda: Counter()).unwrapped) is Counter, "no copy of the class"


def test_nothing_of_the_process_is_changed() -> None:
    def state() -> tuple[object, ...]:
        numpy = str(np.random.get_state())  # noqa: NPY002 - what a program may use
        return random.getstate(), numpy, dict(os.environ)

    before = state()
    make_env("CartPole-v1", seed=3).reset()
    assert state() == before


@pytest.mark.parametrize(
    ("what", "keys", "says"),
    [
        ("CartPol-v1", {}, "must name a registered environment.*Nearest: 'CartPole-v1'"),
        ("CartPole-v1", {"frame_stak": 2}, "environment.frame_stak is not a key.*frame_stack"),
        ("CartPole-v1", {"frame_skip": 0}, "environment.frame_skip must be an integer"),
        ("Pong-v5", {"backend": "envpool"}, "environment.backend .envpool. has none"),
        ("nothing.yaml", {}, "there is no configuration file"),
        ("Blackjack-v1", {"frame_stack": 2}, "environment.frame_stack stacks plain Box"),
    ],
)
def test_what_is_wrong_is_said(what: str, keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_env(what, **keys)
