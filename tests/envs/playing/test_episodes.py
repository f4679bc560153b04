from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.config import EnvironmentConfig
from fast_core.envs.playing.episodes import EpisodeRunner
from fast_core.envs.playing.runner import Runner
from fast_core.envs.playing.vector_episodes import VectorEpisodes
from fast_core.errors import EnvironmentFailed
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.envs.driver import lean, ones, run, toy
from tests.envs.toy import Counter
from tests.envs.vector_toys import as_vector

CARTPOLE = EnvironmentConfig(id="CartPole-v1")


def together(config: EnvironmentConfig, **kwargs: Any) -> Runner:
    """The same environment in a vectorised form."""
    return VectorEpisodes(as_vector(config), **kwargs)


FORMS: dict[str, Callable[..., Runner]] = {"one by one": EpisodeRunner, "together": together}
both = pytest.mark.parametrize("form", FORMS)


class Recorder(Counter):
    """Notes the seed of each reset; an episode lasts as many steps as its seed says."""

    seeds: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        assert seed is not None
        Recorder.seeds.append(seed)
        self.length = 1 + seed % 7
        return super().reset(seed=seed)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    Recorder.seeds.clear()
    gymnasium.register("FastLoopTest/Recorder-v0", entry_point=Recorder)
    yield
    del gymnasium.registry["FastLoopTest/Recorder-v0"]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 9))
def test_exactly_the_episodes_asked_for_are_run(episodes: int, envs: int, seed: int) -> None:
    Recorder.seeds.clear()
    runner = run(EpisodeRunner(toy("Recorder"), episodes=episodes, envs=envs, seed=seed), ones)
    seeds = EpisodeSeeds(seed, Role.EVALUATION, 0, 0)
    expected = [seeds[episode] for episode in range(episodes)]
    assert sorted(Recorder.seeds) == sorted(expected)
    assert runner.lengths == [1 + each % 7 for each in expected]
    assert runner.returns == [n * (n + 1) / 2 for n in runner.lengths]
    assert runner.env_steps == sum(runner.lengths)
    assert runner.step(ones) is False
    assert len(Recorder.seeds) == episodes
    runner.close()


def test_episodes_equal_a_plain_loop() -> None:
    runner = run(EpisodeRunner(CARTPOLE, episodes=4, envs=3, seed=3), lean)
    seeds = EpisodeSeeds(3, Role.EVALUATION, 0, 0)
    for episode in range(4):
        env = gymnasium.make("CartPole-v1")
        obs, _ = env.reset(seed=seeds[episode])
        total, length, ended = 0.0, 0, False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(int(obs[2] > 0))
            total, length, ended = total + float(reward), length + 1, terminated or truncated
        env.close()
        assert (runner.returns[episode], runner.lengths[episode]) == (total, length)
    runner.close()


@both
def test_every_evaluation_plays_the_same_episodes(form: str) -> None:
    """Also after one that was given up in the middle."""
    runner = run(FORMS[form](CARTPOLE, episodes=5, envs=2, seed=0), lean)
    first = list(runner.lengths)
    runner.restart()
    assert runner.lengths == [0] * 5 and runner.returns == [0.0] * 5
    assert runner.step(lean)
    runner.restart()
    assert run(runner, lean).lengths == first
    other = run(FORMS[form](CARTPOLE, episodes=5, envs=2, seed=1), lean)
    assert other.lengths != first
    for each in (runner, other):
        each.close()


def test_the_policy_sees_a_fixed_batch_in_which_finished_rows_stand_still() -> None:
    seen: list[Any] = []

    def act(obs: Any, began: Any) -> Any:
        seen.append(obs.copy())
        return ones(obs, began)

    runner = run(EpisodeRunner(toy("Recorder"), episodes=3, envs=4, seed=0), act)
    assert {obs.shape for obs in seen} == {(4, 3)}
    assert len(seen) == max(runner.lengths)
    for env, length in enumerate(runner.lengths):
        assert [obs[env, 0] for obs in seen] == [min(t, length) for t in range(len(seen))]
    assert not any(obs[3].any() for obs in seen)
    runner.close()


@both
@pytest.mark.parametrize(
    ("own", "lengths", "cut"), [({}, [20] * 3, 3), ({"max_episode_steps": 25}, [25] * 3, 0)]
)
def test_episodes_without_an_end_of_their_own_are_cut_and_counted(
    form: str, own: dict[str, int], lengths: list[int], cut: int
) -> None:
    """A policy may walk into a wall for ever; a limit of the environment's own counts alone."""
    config = toy("Counter", kwargs={"length": 100, **own})
    runner = run(FORMS[form](config, episodes=3, envs=2, seed=5, max_episode_steps=20), ones)
    assert (runner.lengths, runner.cut) == (lengths, cut)
    assert runner.returns == [n * (n + 1) / 2 for n in lengths]
    runner.close()


@both
@pytest.mark.parametrize("nan_in", ["obs", "reward", "large reward"])
def test_episode_with_a_value_that_is_not_finite_has_no_known_return(
    form: str, nan_in: str
) -> None:
    config = toy("Counter", kwargs={"nan_at": 3, "nan_in": nan_in})

    def act(obs: Any, began: Any) -> Any:
        assert np.isfinite(obs).all()
        return ones(obs, began)

    runner = run(FORMS[form](config, episodes=3, envs=2, seed=0), act)
    assert runner.lengths == [3, 3, 5]
    assert runner.returns == pytest.approx([np.nan, np.nan, 15.0], nan_ok=True)
    assert runner.quarantined == 2
    runner.close()


def test_a_value_that_is_not_finite_can_be_an_error() -> None:
    config = toy("Counter", kwargs={"nan_at": 3}, nonfinite="fail")
    with pytest.raises(EnvironmentFailed, match=r"in step 3.*NaN or infinite"):
        run(EpisodeRunner(config, episodes=1, envs=1, seed=0), ones)


def test_a_first_observation_that_is_not_finite_is_an_error() -> None:
    config = toy("Counter", kwargs={"nan_in": "reset"})
    with pytest.raises(EnvironmentFailed, match=r"in reset.*NaN or infinite"):
        run(EpisodeRunner(config, episodes=1, envs=1, seed=0), ones)


def test_an_exception_names_the_episode_and_its_cause() -> None:
    config = toy("Counter", kwargs={"raise_at": 4})
    with pytest.raises(
        EnvironmentFailed, match=r"in step 4 of episode 0 .* action 1: .*bad joint 7"
    ):
        run(EpisodeRunner(config, episodes=2, envs=2, seed=0), ones)


@both
def test_each_environment_is_closed_once(form: str) -> None:
    Counter.closed.clear()
    runner = FORMS[form](toy("Counter"), episodes=3, envs=8, seed=0)
    runner.close()
    runner.close()
    assert len(Counter.closed) == 3
