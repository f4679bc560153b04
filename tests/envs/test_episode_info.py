from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs import make_batch
from fast_core.envs.episode_info import MOST, EpisodeInfo
from fast_core.envs.playing.evaluation import make_runner
from tests.envs.driver import Driver, ones, random_actions, run, toy
from tests.envs.toy import Counter
from tests.envs.vector_toys import as_vector


class Informed(Counter):
    """Its info: a number that grows with the step, one of the last step alone, and a text."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, _ = super().step(action)
        info = {"cost": self.steps / 2, "note": "left", "episode": {"r": np.float32(self.steps)}}
        if terminated or truncated:
            info["is_success"] = True
        return obs, reward, terminated, truncated, info


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("FastLoopTest/Informed-v0", entry_point=Informed)
    yield
    del gymnasium.registry["FastLoopTest/Informed-v0"]


def informed(backend: str, **settings: Any) -> EnvironmentConfig:
    config = toy("Informed", info=("cost", "is_success"), **settings)
    if backend == "gymnasium":
        return config
    return as_vector(config, autoreset_mode=backend)


BACKENDS = ["gymnasium", "Disabled", "SameStep"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_each_episodes_last_step_are_kept(backend: str) -> None:
    batch = make_batch(informed(backend, kwargs={"length": 3}), seed=0, shard=0, envs=2)
    Driver(batch, 2).run(random_actions(batch, 2, 7))
    assert batch.take_episodes().infos == ({"cost": 1.5, "is_success": 1.0, "episode/r": 3.0},) * 4
    assert batch.take_episodes().infos == ()
    batch.close()


def test_episode_cut_by_a_time_limit_has_them_too(caplog: pytest.LogCaptureFixture) -> None:
    config = informed("gymnasium", kwargs={"length": 9, "max_episode_steps": 2})
    batch = make_batch(config, seed=0, shard=0, envs=1)
    Driver(batch, 1).run(random_actions(batch, 1, 4))
    assert batch.take_episodes().infos == ({"cost": 1.0, "episode/r": 2.0},) * 2
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1 and "environment.info names 'is_success'" in told[0]
    batch.close()


@pytest.mark.parametrize("backend", ["gymnasium", "Disabled"])
def test_episode_whose_last_step_is_quarantined_has_none(backend: str) -> None:
    batch = make_batch(informed(backend, kwargs={"nan_at": 2}), seed=0, shard=0, envs=1)
    Driver(batch, 1).run(random_actions(batch, 1, 2))
    assert batch.take_episodes().infos == ({},)
    batch.close()


@pytest.mark.parametrize("backend", BACKENDS)
def test_evaluation_gives_their_means(backend: str) -> None:
    config = informed(backend, kwargs={"length": 4})
    runner = run(make_runner(config, episodes=5, envs=2, seed=0), ones)
    assert runner.info_means() == {"cost": 2.0, "is_success": 1.0, "episode/r": 4.0}
    runner.restart()
    assert runner.info_means() == {}
    runner.close()


def test_saved_batch_keeps_them() -> None:
    config = informed("gymnasium", kwargs={"length": 3})
    batch = make_batch(config, seed=0, shard=0, envs=1)
    Driver(batch, 1).run(random_actions(batch, 1, 3))
    again = make_batch(config, seed=0, shard=0, envs=1)
    assert again.restore(batch.state(), np.zeros((1, 3), np.float32)) == {}
    assert again.take_episodes().infos == batch.take_episodes().infos != ()


@pytest.mark.parametrize("threads", [1, 3])  # with more than one, results come in any order
def test_envpools_info_is_picked_apart(threads: int) -> None:
    pytest.importorskip("envpool")
    config = EnvironmentConfig(
        id="CartPole-v1",
        backend="envpool",
        info=("elapsed_step",),
        kwargs={"num_threads": threads},
    )
    batch = make_batch(config, seed=0, shard=0, envs=3)
    Driver(batch, 3).run(random_actions(batch, 3, 80))
    finished = batch.take_episodes()
    assert [info["elapsed_step"] for info in finished.infos] == finished.lengths
    batch.close()


def test_what_is_no_finite_number_is_left_out() -> None:
    given = {"a": 1, "b": np.array([2.5]), "c": np.nan, "d": "3", "e": np.zeros(2), "f": None}
    assert EpisodeInfo(list(given)).read(given) == {"a": 1.0, "b": 2.5}


def test_misspelt_name_is_told_once_with_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    info = EpisodeInfo(["is_sucess"])
    for _ in range(3):
        assert info.read({"is_success": True}) == {}
    assert len(caplog.records) == 1
    assert "Did you mean 'is_success'?" in caplog.records[0].getMessage()


def test_environment_of_ever_new_names_is_bounded() -> None:
    group = {f"n{index}": index for index in range(1000)}
    assert len(EpisodeInfo([]).read({"episode": group})) == MOST
