"""Pictures of Gymnasium's classic control, made small before they are copied."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.envs.making import Env

_ON_SURFACE = "surface"  # no mode that they know: they draw, and return nothing


def drawn_small(env: Env, most: int) -> Callable[[], NDArray[np.uint8]] | None:
    """What draws ``env``, made with `rgb_array` and reset, as ``[H, W, 3]`` of at most ``most``.

    That takes less than half as long as its ``render()``, which copies all of a large picture.
    None where it does not draw on a surface of pygame's, which stays where it can be seen; then it
    is as it was.
    """
    inner: Any = env.unwrapped
    surface = _surface(inner)
    if surface is None:
        return None
    pygame: Any = sys.modules["pygame"]
    scale = -(-max(surface.get_size()) // most)
    width, height = (length // scale for length in surface.get_size())

    def draw() -> NDArray[np.uint8]:
        inner.render()
        small = pygame.transform.smoothscale(inner.screen, (width, height))
        data = pygame.image.tobytes(small, "RGB")
        return np.frombuffer(data, np.uint8).reshape(height, width, 3)

    return draw


def _surface(inner: Any) -> Any:
    """Where it draws from now on, in a mode that it does not know; None where it does otherwise."""
    mode, inner.render_mode = inner.render_mode, _ON_SURFACE
    with suppress(Exception):  # it may not take what it does not know
        drawn, surface = inner.render(), getattr(inner, "screen", None)
        pygame = sys.modules.get("pygame")
        if drawn is None and pygame is not None and isinstance(surface, pygame.Surface):
            return surface
    inner.render_mode = mode
    return None
