"""Pictures of Gymnasium's MuJoCo environments that cost little where there is no GPU.

Drawn in software a picture of 480 pixels with shadows, reflections and four samples a pixel takes
80 ms of processor time; one of 320 without them takes 3 ms.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.envs.making import Env

_SLACK_M = 0.5  # that what is drawn may be beside the middle of the picture


class MujocoPictures:
    """Draws one environment, from its first picture on.

    What is set of the model is put back, so an environment that draws its observations itself
    draws the same ones as ever.
    """

    def __init__(self, env: Env) -> None:
        """For an environment that `draws_with_gymnasium`."""
        self._env, self._begun = env, False
        self._inner: Any = env.unwrapped
        # Where what moves was in the first picture, and where the camera looked.
        self._middle: NDArray[np.float64] | None = None
        self._lookat = np.zeros(3)

    def fit(self, most: int) -> None:
        """Let pictures have at most so many pixels in each direction."""
        renderer = self._inner.mujoco_renderer
        width, height = renderer.width, renderer.height
        if renderer.viewer is None and width and height and max(width, height) > most:
            scale = most / max(width, height)
            renderer.width, renderer.height = round(scale * width), round(scale * height)

    def render(self) -> object:
        """What the environment draws; without shadows and reflections."""
        if self._begun or self._viewer() is not None:  # it may draw for itself
            return self._env.render()
        quality = self._inner.model.vis.quality
        before = quality.offsamples, quality.shadowsize
        quality.offsamples = quality.shadowsize = 0
        try:
            picture: object = self._env.render()
        finally:
            quality.offsamples, quality.shadowsize = before
        flags, kinds = self._viewer().scn.flags, sys.modules["mujoco"].mjtRndFlag
        flags[kinds.mjRND_SHADOW] = flags[kinds.mjRND_REFLECTION] = 0
        self._begun = True
        return picture

    def followed(self) -> object:
        """As `render`, with the camera moved after what runs out of the picture.

        From the second picture on: the first one shows where the camera is.
        """
        lookat = self._viewer().cam.lookat
        middle = np.array(self._inner.data.subtree_com[0, :2])
        if self._middle is None:
            self._middle, self._lookat = middle, np.array(lookat)
        away = middle - self._middle
        distance_m = float(np.hypot(*away))
        if distance_m > 0:
            away *= max(0.0, 1 - _SLACK_M / distance_m)
        lookat[:2] = self._lookat[:2] + away
        return self.render()

    def _viewer(self) -> Any:
        return self._inner.mujoco_renderer.viewer


def draws_with_gymnasium(env: Env) -> bool:
    """Whether Gymnasium's own renderer of MuJoCo draws it."""
    module = sys.modules.get("gymnasium.envs.mujoco.mujoco_rendering")
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    return module is not None and type(renderer) is module.MujocoRenderer
