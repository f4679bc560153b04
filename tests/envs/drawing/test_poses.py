"""Another environment that is brought to a pose looks the same."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.envs.drawing.poses import posed, take_pose

CLASSIC = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]


class Own(CartPoleEnv):
    """May be drawn from whatever it likes."""


class Framed(gymnasium.Wrapper):
    """Draws something else."""

    def render(self) -> None:
        """Nothing."""


class Random(gymnasium.Wrapper):
    """Another pole in each episode, which its picture shows and its state does not."""

    def reset(self, **how: object) -> object:
        """Choose a pole."""
        self.unwrapped.length = self.np_random.uniform(0.3, 1.0)  # type: ignore[attr-defined]
        return self.env.reset(**how)  # type: ignore[arg-type]


@pytest.mark.parametrize("id", CLASSIC)
def test_classic_control_is_drawn_alike_elsewhere(id: str) -> None:
    let_draw_without_screen()
    env, other = (gymnasium.make(id, render_mode="rgb_array") for _ in range(2))
    pose = posed(env)
    assert pose is not None and pose() is None, "before a reset"
    env.reset(seed=1)
    other.reset(seed=2)
    env.action_space.seed(0)
    for steps in (0, 5):
        for _ in range(steps):
            env.step(env.action_space.sample())
        given = pose()
        assert given is not None and given.dtype == np.float64
        take_pose(other, given)
        np.testing.assert_array_equal(env.render(), other.render())
    env.close()
    other.close()


@pytest.mark.parametrize("id", ["HalfCheetah-v5", "Pusher-v5"])
def test_bodies_of_mujoco_are_in_the_same_places_elsewhere(id: str) -> None:
    pytest.importorskip("mujoco")
    env, other = gymnasium.make(id), gymnasium.make(id)
    env.reset(seed=1)
    other.reset(seed=2)
    for _ in range(5):
        env.step(env.action_space.sample())
    pose = posed(env)
    given = pose() if pose else None
    assert given is not None
    take_pose(other, given)
    # The simulation leaves places as they were before its last substep.
    np.testing.assert_array_equal(env.unwrapped.data.qpos, other.unwrapped.data.qpos)  # type: ignore[attr-defined]
    env.unwrapped.set_state(given, env.unwrapped.data.qvel)  # type: ignore[attr-defined]
    for name in ("xpos", "geom_xpos", "geom_xmat", "subtree_com"):
        ours, theirs = (getattr(each.unwrapped.data, name) for each in (env, other))  # type: ignore[attr-defined]
        np.testing.assert_array_equal(ours, theirs)


def test_what_may_draw_from_more_has_no_pose() -> None:
    assert posed(Own()) is None
    assert posed(Framed(CartPoleEnv())) is None
    assert posed(Random(CartPoleEnv())) is None
    assert posed(gymnasium.wrappers.TimeLimit(CartPoleEnv(), 9)) is not None
