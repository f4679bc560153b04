"""Classic control is drawn as ever, but small."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.envs.drawing.classic_pictures import drawn_small
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.monitor.screens.picture import as_picture


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCarContinuous-v0", "Acrobot-v1"])
@pytest.mark.parametrize(("most", "rounding"), [(600, 0), (320, 1), (150, 3)])
def test_picture_is_the_large_one_made_smaller(name: str, most: int, rounding: int) -> None:
    let_draw_without_screen()
    env = gymnasium.make(name, render_mode="rgb_array")
    env.reset(seed=3)
    expected = as_picture(env.render(), most)
    draw = drawn_small(env, most)
    assert draw is not None
    np.testing.assert_allclose(draw().astype(int), expected, atol=rounding)
    env.close()


def test_what_is_drawn_otherwise_is_left_as_it_was() -> None:
    let_draw_without_screen()
    env = gymnasium.make("Pendulum-v1", render_mode="rgb_array")  # returns a picture in any mode
    env.reset(seed=3)
    assert drawn_small(env, 320) is None
    assert env.unwrapped.render_mode == "rgb_array"
    env.close()


def test_what_does_not_take_another_mode_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    env.reset(seed=3)

    def refuse(inner: CartPoleEnv) -> None:
        raise ValueError(f"no mode {inner.render_mode!r}")

    monkeypatch.setattr(CartPoleEnv, "render", refuse)
    assert drawn_small(env, 320) is None
    assert env.unwrapped.render_mode == "rgb_array"
    env.close()
