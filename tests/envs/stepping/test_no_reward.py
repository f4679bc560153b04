"""Episodes in which nothing is gained are cut off, with every way of stepping."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.api.environment import make_env
from fast_core.config import AtariConfig, EnvironmentConfig
from fast_core.envs.playing.evaluation import make_runner
from fast_core.envs.stepping.batch import EnvBatch
from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.errors import ConfigError
from tests.conformance.adapters import vectorised
from tests.envs.driver import Driver, ones, run, toy
from tests.envs.vector_toys import as_vector

BACKENDS = ["gymnasium", "gymnasium_vector"]
TIMES = {"no_reward_timeout_steps": 3, "no_reward_penalty": -2}
SEED: dict[str, Any] = {"seed": 1, "shard": 2}


def sparse(rewards: list[float], *, length: int = 100, **settings: Any) -> EnvironmentConfig:
    given = settings.pop("kwargs", {})
    kwargs = {"rewards": rewards, "length": length, **given}
    return toy("Sparse", kwargs=kwargs, **(TIMES | settings))


def drive(config: EnvironmentConfig, steps: int, backend: str = "gymnasium", envs: int = 2) -> Any:
    make = GymnasiumBatch if backend == "gymnasium" else vectorised
    driver = Driver(make(config, envs=envs, **SEED), envs)
    driver.run(np.ones((steps, envs), np.int64))
    driver.batch.close()
    return driver


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_episode_is_truncated_after_so_many_steps_without_a_reward(backend: str) -> None:
    driver = drive(sparse([1, 0, 0, -1]), 9, backend)
    reward, terminated, truncated = (each[:, 0] for each in driver.columns()[1:4])
    assert reward.tolist() == [1, 0, 0, -1, 0, 0, -2, 1, 0]
    assert not terminated.any()
    assert truncated.tolist() == [False] * 6 + [True] + [False] * 2
    assert driver.final_obs[6][0, 0] == 7, "the true successor is bootstrapped from"
    assert [row[0, 0] for row in driver.obs] == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    assert driver.batch.take_episodes()[:2] == ([-2.0] * 2, [7] * 2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("by", ["terminated", "truncated", "time limit", "quarantine"])
def test_an_episode_that_ends_by_itself_in_that_step_is_left_as_it_is(
    by: str, backend: str
) -> None:
    config = sparse([], length=3, kwargs={"end": by if by in ("terminated", "truncated") else ""})
    if by == "time limit":
        config = sparse([], kwargs={"max_episode_steps": 3})
    elif by == "quarantine":
        config = sparse([], kwargs={"nan_at": 3})
    driver = drive(config, 6, backend, envs=1)
    assert not np.array(driver.reward)[2].any(), "no penalty"
    assert driver.terminated[2].tolist() == [by == "terminated"]
    assert driver.truncated[2].tolist() == [by != "terminated"]
    assert driver.quarantined[2].tolist() == [by == "quarantine"]
    if by == "quarantine":
        assert driver.truncated[5].all() and driver.reward[5] == [-2], "it counts anew"


def test_the_rewards_of_repeated_actions_are_one() -> None:
    driver = drive(sparse([1, -1, 0, 0, 0, 0, 1, 1], frame_skip=2), 3)
    assert np.array(driver.truncated)[:, 0].tolist() == [False, False, True]
    assert np.array(driver.reward)[:, 0].tolist() == [0, 0, -2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_evaluation_is_cut_too_and_not_punished(backend: str) -> None:
    config = sparse([0, 1, 0, 0, 5])
    if backend == "gymnasium_vector":
        config = as_vector(config)
    runner = run(make_runner(config, episodes=3, envs=2, seed=0), ones)
    runner.close()
    assert runner.returns == [6.0] * 3
    assert runner.lengths == [8] * 3
    assert runner.endings == ["no_reward"] * 3


def test_an_evaluation_in_batches_is_not_punished_either() -> None:
    pytest.importorskip("envpool")
    config = EnvironmentConfig(
        id="Breakout-v5", backend="envpool", no_reward_timeout_steps=3, no_reward_penalty=-2
    )
    runner = run(make_runner(config, episodes=4, envs=2, seed=0), ones)
    runner.close()
    assert runner.returns == [0.0] * 4
    assert runner.lengths == [3] * 4
    assert runner.endings == ["no_reward"] * 4


def test_an_environment_to_look_at_is_cut_as_in_training() -> None:
    env = make_env(msgspec.to_builtins(sparse([1])))
    env.reset()
    steps = [env.step(1)[1:4] for _ in range(4)]
    assert steps == [(1, False, False), (0, False, False), (0, False, False), (-2, False, True)]
    env.reset()
    assert not env.step(1)[3]


def test_a_library_that_resets_at_its_own_ends_alone_is_refused() -> None:
    config = as_vector(sparse([]), autoreset_mode="SameStep")
    with pytest.raises(ConfigError, match=r"no_reward_timeout_steps 3.*backend: gymnasium"):
        VectorBatch(config, envs=2, **SEED)


@pytest.mark.parametrize("backend", ["gymnasium", "envpool"])
def test_a_game_that_goes_on_over_lost_lives_begins_anew_after_a_cut(backend: str) -> None:
    id = "ALE/Breakout-v5"
    if backend == "envpool":
        pytest.importorskip("envpool")
        id = "Breakout-v5"
    config = EnvironmentConfig(
        id=id,
        backend=backend,
        atari=AtariConfig(terminal_on_life_loss=True, fire_on_reset=False, noop_max=1),
        info=("lives",),
        no_reward_timeout_steps=60,
    )
    make = GymnasiumBatch if backend == "gymnasium" else VectorBatch
    batch: EnvBatch = make(config, envs=1, **SEED)
    driver = Driver(batch, 1)
    ended: list[str] = []
    while ended[-1:] != ["lost"] or "cut" not in ended:  # once cut, the ball is served again
        driver.run([np.array([0 if ended and "cut" not in ended else 1])])
        ended += ["cut"] * bool(driver.truncated[-1]) + ["lost"] * bool(driver.terminated[-1])
        assert len(driver.obs) < 500
    batch.close()
    lives = [info["lives"] for info in batch.take_episodes().infos]
    assert lives[-2] < 5 and lives[-1] == 4, "after the cut a new game begins, with five"
