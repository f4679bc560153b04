from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from fast_core.config import AtariConfig, EnvironmentConfig
from fast_core.envs.playing.episodes import EpisodeRunner
from fast_core.envs.playing.evaluation import evaluated, make_runner
from fast_core.envs.playing.rendering import drawing
from fast_core.envs.playing.vector_episodes import VectorEpisodes
from fast_core.envs.stepping.vector_batch import VectorBatch
from fast_core.system.seeding import Role
from tests.envs.driver import Driver, lean, run, toy
from tests.envs.vector_toys import as_vector

VECTOR = as_vector(EnvironmentConfig(id="CartPole-v1"))


def vector(**settings: Any) -> VectorEpisodes:
    return VectorEpisodes(VECTOR, **({"episodes": 7, "envs": 3, "seed": 5} | settings))


def by_hand(episodes: int, envs: int, seed: int) -> list[int]:
    """Lengths, one environment after the other, out of plain steps of a batch."""
    lengths = [0] * episodes
    lanes = min(envs, episodes)
    batch = VectorBatch(VECTOR, seed=seed, shard=0, envs=lanes, role=Role.EVALUATION)
    driver, playing = Driver(batch, lanes), list(range(lanes))
    while min(playing) < episodes:
        driver.run([lean(driver.obs[-1], None)])
        for lane, episode in enumerate(playing):
            if episode < episodes:
                lengths[episode] += 1
                if driver.ended[-1, lane]:
                    playing[lane] += envs
    batch.close()
    return lengths


@pytest.mark.parametrize(("episodes", "envs"), [(7, 3), (2, 5), (4, 4), (5, 1)])
def test_exactly_the_asked_episodes_are_played_each_to_its_end(episodes: int, envs: int) -> None:
    runner = run(vector(episodes=episodes, envs=envs))
    assert runner.lengths == by_hand(episodes, envs, 5)
    assert runner.returns == runner.lengths
    assert runner.env_steps == sum(runner.lengths)
    assert (runner.cut, runner.quarantined) == (0, 0)
    runner.close()


def test_the_policy_sees_all_rows_and_where_episodes_begin() -> None:
    seen = []

    def act(obs: Any, began: Any) -> Any:
        seen.append((len(obs), began.copy()))
        return lean(obs, began)

    runner = run(vector(episodes=3, envs=5), act)
    assert {rows for rows, _ in seen} == {5}
    assert seen[0][1].tolist() == [True, True, True, False, False]
    assert len(seen) == max(runner.lengths)
    seen.clear()
    run(vector(episodes=6, envs=3), act)
    assert sum(began.sum() for _, began in seen) >= 6


def test_rows_without_an_environment_forbid_nothing() -> None:
    config = as_vector(toy("Corridors", action_mask="open"))
    generator = np.random.default_rng(0)

    def act(obs: Any, _began: Any) -> Any:
        assert obs["open"].any(axis=1).all()
        return np.array([1 + generator.choice(np.flatnonzero(mask)) for mask in obs["open"]])

    runner = run(VectorEpisodes(config, episodes=5, envs=9, seed=5), act)
    assert min(runner.lengths) >= 3
    runner.close()


def test_progress_is_shown() -> None:
    steps = []
    runner = run(vector(on_step=lambda: steps.append(1)))
    assert len(steps) >= max(runner.lengths)


def test_frames_are_stacked_for_the_policy() -> None:
    stacks = []

    def act(obs: Any, began: Any) -> Any:
        stacks.append(obs.copy())
        return lean(obs[:, -1], began)

    config = replace(VECTOR, frame_stack=3)
    run(VectorEpisodes(config, episodes=2, envs=2, seed=5), act)
    assert stacks[0].shape == (2, 3, 4)
    assert (stacks[0][:, 0] == stacks[0][:, 2]).all()
    assert np.array_equal(stacks[5][:, 1], stacks[4][:, 2])


def test_scalar_environments_play_for_vectorised_ones() -> None:
    runner = make_runner(VECTOR, episodes=3, envs=2, seed=0)
    assert isinstance(runner, EpisodeRunner)
    kwargs = {"autoreset_mode": "SameStep", "num_threads": 2, "max_episode_steps": 9}
    config = EnvironmentConfig(id="CartPole-v1", backend="gymnasium_vector", kwargs=kwargs)
    plain = EnvironmentConfig(id="CartPole-v1", kwargs={"max_episode_steps": 9})
    assert evaluated(config) == plain
    runner.close()


def test_envpool_plays_its_own_evaluations() -> None:
    pytest.importorskip("envpool")
    kwargs = {"max_episode_steps": 60}
    config = EnvironmentConfig(id="CartPole-v1", backend="envpool", kwargs=kwargs)
    runner = run(make_runner(config, episodes=8, envs=3, seed=1, max_episode_steps=20))
    assert isinstance(runner, VectorEpisodes)
    first = list(runner.lengths)
    assert min(first) > 10
    assert 20 < max(first) <= 60, "a limit of its own counts alone"
    assert runner.cut == 0
    runner.restart()
    assert run(runner).lengths == first
    runner.close()


def test_envpools_evaluations_play_whole_games() -> None:
    pytest.importorskip("envpool")
    config = EnvironmentConfig(
        id="Breakout-v5",
        backend="envpool",
        frame_stack=4,
        atari=AtariConfig(terminal_on_life_loss=True, clip_rewards=True),
    )
    runner = make_runner(config, episodes=2, envs=2, seed=1)

    lives = np.zeros(2, np.int64)

    def act(obs: Any, began: Any) -> Any:
        assert obs.shape == (2, 4, 84, 84)
        np.add(lives, began, out=lives)
        return np.full(2, 2, np.int64)

    # EnvPool fires where a life begins; the policy never does
    run(runner, act)
    assert lives.min() == 5
    assert 100 < min(runner.lengths) <= max(runner.lengths) < 1000
    assert min(runner.returns) > 1, "the whole game's score"
    runner.close()


def test_a_vectorised_environment_is_drawn_by_its_scalar_form() -> None:
    kwargs = {"autoreset_mode": "Disabled"}
    config = EnvironmentConfig(id="CartPole-v1", backend="gymnasium_vector", kwargs=kwargs)
    drawn = drawing(config, "rgb_array")
    assert (drawn.backend, drawn.kwargs) == ("gymnasium", {"render_mode": "rgb_array"})
