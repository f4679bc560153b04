"""Environments of tiles are made so that they draw, where they can, and else as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from fast_core.config import EnvironmentConfig
from fast_core.envs import make_batch
from fast_core.envs.drawing.drawable import Drawable
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.envs.stepping.batch import EnvBatch
from tests.envs.driver import Driver
from tests.envs.vector_toys import with_vector_form


class Plain(gymnasium.Env[Any, Any]):
    """Has no render modes."""

    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Draws(Plain):
    """Draws itself."""

    metadata = {"render_modes": ["rgb_array", "ansi"]}

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8) if self.render_mode == "rgb_array" else None


class Writes(Draws):
    """Writes itself."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def render(self) -> Any:
        return f"text in {self.render_mode}"


class PrefersToWrite(Writes):
    """Draws itself too."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "watch_mode": "ansi"}


class TakesNoMode(Plain):
    """Says that it draws, but can't be told to."""

    metadata = {"render_modes": ["rgb_array"]}


class NeedsAScreen(Draws):
    """Fails where it is made to draw."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if render_mode:
            raise OSError("no display")


def makes(**kwargs: Any) -> Plain:
    """A function that hands on what it is given, to what does not take it."""
    return Plain(**kwargs)


def batch(id: str, *, backend: Any = "gymnasium", **kwargs: Any) -> EnvBatch:
    config = EnvironmentConfig(id=id, backend=backend, kwargs=kwargs)
    return make_batch(config, seed=3, shard=0, envs=2, draws=(0,))


def drawables(id: str, **kwargs: Any) -> list[Drawable]:
    made = batch(f"{__name__}:{id}", **kwargs)
    made.reset(np.zeros((2, 2), np.float32))
    return [made.drawable(place) for place in range(2)]


def test_only_tiles_are_made_to_draw() -> None:
    tile, other = drawables("Draws")
    assert tile.why_not == "" and np.shape(tile.render()) == (2, 2, 3)
    assert other.render() is None


@pytest.mark.parametrize(
    ("id", "why"),
    [
        ("Plain", "Plain has neither 'rgb_array' nor 'ansi' in its metadata['render_modes']"),
        ("TakesNoMode", "TakesNoMode takes no render_mode"),
        ("NeedsAScreen", "it can't be made with render_mode 'rgb_array': OSError: no display"),
        ("makes", "it can't be made with render_mode 'rgb_array': TypeError"),
    ],
)
def test_what_can_not_draw_is_made_as_it_is_and_says_why(id: str, why: str) -> None:
    tile, other = drawables(id)
    assert why in tile.why_not and other.why_not == ""


def test_mode_that_the_user_has_chosen_stays() -> None:
    tile, _ = drawables("Draws", render_mode="rgb_array")
    assert tile.why_not == "" and not tile.apart, "it may draw in its steps, too"
    assert drawables("Draws")[0].apart
    assert drawables("Writes", render_mode="ansi")[0].why_not == ""
    why = drawables("Draws", render_mode=None)[0].why_not
    assert why == "environment.kwargs.render_mode is None"


@pytest.mark.parametrize("id", ["Writes", "PrefersToWrite"])
def test_what_can_only_write_or_prefers_to_is_made_to_write(id: str) -> None:
    tile, other = drawables(id)
    assert (tile.why_not, tile.render()) == ("", "text in ansi")
    assert other.render() == "text in None"


def test_vectorised_environments_draw_each_of_theirs() -> None:
    made = batch(with_vector_form("CartPole-v1"), backend="gymnasium_vector")
    driver = Driver(made, 2)
    first, second = (made.drawable(place) for place in range(2))
    assert np.shape(first.render()) == (400, 600, 3)
    assert not np.array_equal(first.render(), second.render())
    assert len(first.parts) > 2, "the environments within, whose random numbers count"
    before = np.array(first.render())
    driver.run([np.ones(2, np.int64)] * 5)
    assert not np.array_equal(before, first.render())
    made.close()


def test_vectorised_environments_that_can_not_draw_are_made_as_they_are() -> None:
    gymnasium.register("FastLoopTest/Plain-v0", entry_point=Plain, vector_entry_point=_plain_vector)
    made = batch("FastLoopTest/Plain-v0", backend="gymnasium_vector")
    assert "takes no render_mode" in made.drawable(0).why_not
    made.close()


def _plain_vector(num_envs: int, autoreset_mode: Any = None) -> Any:
    return gymnasium.vector.SyncVectorEnv([Plain] * num_envs, autoreset_mode=autoreset_mode)


def test_users_choice_of_what_draws_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    monkeypatch.setenv("SDL_VIDEODRIVER", "kmsdrm")
    let_draw_without_screen()
    assert (os.environ["MUJOCO_GL"], os.environ["SDL_VIDEODRIVER"]) == ("glfw", "kmsdrm")


_WITHOUT_DEVICES = """
import os
from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
let_draw_without_screen()
print(os.environ.get("MUJOCO_GL"))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="EGL is Linux's")
def test_an_egl_without_devices_is_not_what_draws() -> None:
    """MuJoCo could not even be imported with it in many of its versions."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL")
    kept = {name: value for name, value in os.environ.items() if name not in names}
    without = kept | {"__EGL_VENDOR_LIBRARY_DIRS": "/nowhere"}  # where libEGL finds drivers
    said = subprocess.run(
        [sys.executable, "-c", _WITHOUT_DEVICES], env=without, capture_output=True, text=True
    )
    assert said.stdout.strip() != "egl", said.stderr
    assert said.returncode == 0
