"""Pictures of MuJoCo's environments are small and plain, and leave the model as it was."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest

from fast_core.envs.drawing.made_to_draw import let_draw_without_screen
from fast_core.envs.drawing.mujoco_pictures import MujocoPictures, draws_with_gymnasium


class Viewer:
    """As Gymnasium's, without OpenGL."""

    def __init__(self, inner: Any) -> None:
        flags = sys.modules["mujoco"].mjtRndFlag.mjNRNDFLAG
        self.scn = type("Scene", (), {"flags": np.ones(int(flags))})()
        self.cam = type("Camera", (), {"lookat": np.array([1.0, 2.0, 3.0])})()
        self.made_with = inner.model.vis.quality.offsamples, inner.model.vis.quality.shadowsize


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("mujoco")
    let_draw_without_screen()
    made: Any = gymnasium.make("HalfCheetah-v5", render_mode="rgb_array", width=640, height=480)
    made.reset(seed=0)
    inner = made.unwrapped

    def render() -> np.ndarray:
        renderer = inner.mujoco_renderer
        renderer.viewer = renderer.viewer or Viewer(inner)
        return np.zeros((renderer.height, renderer.width, 3), np.uint8)

    monkeypatch.setattr(inner, "render", render)
    return made


def test_pictures_are_small_without_shadows_and_the_model_is_as_it_was(env: Any) -> None:
    assert draws_with_gymnasium(env)
    pictures, quality = MujocoPictures(env), env.unwrapped.model.vis.quality
    before = quality.offsamples, quality.shadowsize
    assert 0 not in before
    pictures.fit(320)
    drawn = pictures.render()
    assert isinstance(drawn, np.ndarray) and drawn.shape == (240, 320, 3)
    viewer, kinds = env.unwrapped.mujoco_renderer.viewer, sys.modules["mujoco"].mjtRndFlag
    assert viewer.made_with == (0, 0)
    assert (quality.offsamples, quality.shadowsize) == before
    off = {int(kinds.mjRND_SHADOW), int(kinds.mjRND_REFLECTION)}
    assert set(np.flatnonzero(viewer.scn.flags == 0)) == off


def test_camera_follows_what_runs_away(env: Any) -> None:
    pictures = MujocoPictures(env)
    pictures.render()
    lookat = env.unwrapped.mujoco_renderer.viewer.cam.lookat
    moved = env.unwrapped.data.subtree_com
    pictures.followed()
    moved[0, 0] += 0.4
    pictures.followed()
    np.testing.assert_array_equal(lookat, [1.0, 2.0, 3.0])
    moved[0, 0] += 7.1
    pictures.followed()
    np.testing.assert_allclose(lookat, [8.0, 2.0, 3.0])


def test_environment_that_draws_for_itself_is_left_as_it_is(env: Any) -> None:
    env.render()
    before = env.unwrapped.mujoco_renderer.viewer
    pictures = MujocoPictures(env)
    pictures.fit(320)
    drawn = pictures.render()
    assert isinstance(drawn, np.ndarray) and drawn.shape == (480, 640, 3)
    assert before.scn.flags.all()
