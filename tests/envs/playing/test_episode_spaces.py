"""Evaluation with stacked frames, composite observations, masks and repeated actions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import FrameStackObservation

from fast_core.envs.masks import valid_action
from fast_core.envs.playing.episodes import EpisodeRunner
from fast_core.errors import EnvironmentFailed
from fast_core.system.seeding import EpisodeSeeds, Role
from tests.envs.driver import run, toy


def play(runner: EpisodeRunner, act: Any) -> None:
    run(runner, act).close()


class Allowed:
    """Takes the first allowed action everywhere; keeps what it saw."""

    def __init__(self, runner: EpisodeRunner) -> None:
        self.spec = runner.spec
        self.seen: list[Any] = []
        self.began: list[Any] = []

    def __call__(self, obs: Any, began: Any) -> Any:
        self.seen.append(obs.copy())
        self.began.append(began.copy())
        mask = self.spec.action_mask
        masks = [None] * len(obs) if mask is None else obs[mask]
        assert mask is None or masks.any(axis=1).all()
        return np.array([valid_action(self.spec.action, each) for each in masks])


@pytest.mark.parametrize("envs", [1, 2, 5])
def test_stacked_frames_equal_those_of_gymnasium(envs: int) -> None:
    frames, episodes = 3, 5
    runner = EpisodeRunner(toy("Ticks", frame_stack=frames), episodes=episodes, envs=envs, seed=3)
    act = Allowed(runner)
    play(runner, act)
    seeds = EpisodeSeeds(3, Role.EVALUATION, 0, 0)
    single = gymnasium.make("FastLoopTest/Ticks-v0", disable_env_checker=True)
    stacked = FrameStackObservation(single, frames, padding_type="reset")
    for episode in range(episodes):
        env, start = episode % envs, episode // envs * 7  # an episode has seven steps
        obs, _ = stacked.reset(seed=seeds[episode])
        for step in range(7):
            assert np.array_equal(act.seen[start + step][env], obs)
            assert act.began[start + step][env] == (step == 0)
            obs, *_ = stacked.step(np.zeros(1, np.float32))
    assert act.seen[0].dtype == np.uint8


@pytest.mark.parametrize(
    ("where", "mask"), [("obs", "open"), ("info", "info.doors"), ("info of dict", "info.doors")]
)
@pytest.mark.parametrize("fault", ["", "empty"])
@pytest.mark.parametrize("envs", [3, 6])
def test_every_row_has_an_allowed_action_whatever_the_end_allows(
    where: str, mask: str, fault: str, envs: int
) -> None:
    """Rows without an episode too: the policy acts on all of them."""
    kwargs: dict[str, Any] = {"where": where, "fault": fault, "at": 6}
    runner = EpisodeRunner(
        toy("Doors", kwargs=kwargs, action_mask=mask), episodes=4, envs=envs, seed=0
    )
    play(runner, Allowed(runner))
    assert runner.lengths == [6] * 4


@pytest.mark.parametrize(("at", "when"), [(0, "in reset of episode 0"), (2, "in step 2 of")])
def test_a_mask_that_allows_nothing_is_an_error(at: int, when: str) -> None:
    config = toy("Doors", kwargs={"fault": "empty", "at": at}, action_mask="open")
    runner = EpisodeRunner(config, episodes=4, envs=3, seed=0)
    with pytest.raises(EnvironmentFailed, match=f"{when}.*allows no action$"):
        play(runner, Allowed(runner))


def test_composite_observations_and_several_choices() -> None:
    runner = EpisodeRunner(toy("Robot"), episodes=3, envs=2, seed=0)
    act = Allowed(runner)
    play(runner, act)
    assert [obs["goal/0"][0] for obs in act.seen] == [0, 1, 2, 3, 4] * 2
    assert [obs["camera"][1].max() for obs in act.seen[:5]] == [0, 1, 2, 3, 4]
    assert runner.returns == [0.0] * 3  # choices 0, 1 and -1 are the first


def test_a_part_that_is_not_finite_keeps_the_last_good_observation() -> None:
    runner = EpisodeRunner(toy("Robot", kwargs={"fault": "nan"}), episodes=1, envs=1, seed=0)
    act = Allowed(runner)
    play(runner, act)
    assert (runner.lengths, runner.quarantined) == ([3], 1)


def test_repeated_actions_add_up_rewards_and_count_steps_of_the_run() -> None:
    runner = EpisodeRunner(toy("Ticks", frame_skip=3), episodes=2, envs=1, seed=0)
    play(runner, Allowed(runner))
    assert runner.lengths == [3, 3]
    assert runner.returns == [28.0, 28.0]
    limited = toy("Ticks", frame_skip=3, kwargs={"max_episode_steps": 5})
    runner = EpisodeRunner(limited, episodes=2, envs=2, seed=0)
    play(runner, Allowed(runner))
    assert (runner.lengths, runner.returns) == ([2, 2], [15.0, 15.0])
