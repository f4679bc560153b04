"""Environments that draw themselves, for people who watch."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec
from gymnasium.envs.registration import load_env_creator

from fast_core.config import EnvironmentConfig
from fast_core.envs.drawing.made_to_draw import (
    MODE,
    PREFERRED,
    PREFERRED_BY_HAND,
    TEXT_MODE,
    has_screen,
    let_draw_without_screen,
)
from fast_core.envs.making import make_env, registered
from fast_core.envs.place import ALONE, Place
from fast_core.envs.playing.evaluation import evaluated
from fast_core.errors import ConfigError, EnvironmentFailed

Mode = Literal["human", "rgb_array", "ansi"]


def drawing(config: EnvironmentConfig, mode: Mode, place: Place = ALONE) -> EnvironmentConfig:
    """The same environment, made to draw: ``human`` in a window, ``rgb_array`` as images.

    ``ansi`` makes it write text.
    For images on a machine without a screen it also does as `let_draw_without_screen`.

    Raises:
        ConfigError: It can't be made, or has no such mode, or there is no screen.
    """
    backend, config = config.backend, evaluated(config)
    if not config.one_by_one:
        raise ConfigError(
            f"environment {config.id!r} can't be drawn here: environment.backend {backend!r} has "
            "none that is made alone. Watch it while it trains: --dashboard."
        )
    if mode == "rgb_array":
        let_draw_without_screen()
    modes = render_modes(config, place)
    # Gymnasium shows the images of an environment that has no window of its own.
    if mode not in modes and not (mode == "human" and "rgb_array" in modes):
        raise ConfigError(
            f"environment {config.id!r} has no render mode {mode!r}; it has "
            f"{', '.join(map(repr, modes)) or 'none'} (metadata['render_modes']). Its episodes "
            "can be written as numbers: `fastloop eval RUN --record FILE.npz`."
        )
    if mode == "human":
        check_screen(config)
    return msgspec.structs.replace(config, kwargs={**config.kwargs, "render_mode": mode})


def watch_mode(config: EnvironmentConfig, *, by_hand: bool = False) -> Mode:
    """How a person watches an environment: in a window, or as text where it has none.

    Text too where there is no screen, and where the environment's metadata prefer it, if only to
    be played ``by_hand``.
    """
    config = evaluated(config)
    if not config.one_by_one:
        return "human"
    env = make_env(config, ALONE)
    try:
        modes, preferred = set(env.metadata.get("render_modes") or ()), env.metadata.get(PREFERRED)
        preferred = env.metadata.get(PREFERRED_BY_HAND, preferred) if by_hand else preferred
    finally:
        env.close()
    if TEXT_MODE not in modes:
        return "human"
    window = bool({"human", MODE} & modes) and has_screen() and preferred != TEXT_MODE
    return "human" if window else "ansi"


def render_modes(config: EnvironmentConfig, place: Place = ALONE) -> tuple[str, ...]:
    """The render modes that the configured environment says it has."""
    env = make_env(config, place)
    try:
        return tuple(mode for mode in env.metadata.get("render_modes", ()) if mode)
    finally:
        env.close()


def check_screen(config: EnvironmentConfig) -> None:
    """Refuse a window that nobody could see; pygame would draw into nothing, GLFW abort.

    Raises:
        ConfigError: There is no screen.
    """
    chosen = os.environ.get("SDL_VIDEODRIVER")  # for instance kmsdrm, on a console
    if has_screen() or (chosen and not _draws_with_mujoco(config)):
        return
    raise ConfigError(
        f"no window for environment {config.id!r} can be opened here: neither DISPLAY nor "
        "WAYLAND_DISPLAY is set. Write a video instead (fastloop eval RUN --video FILE.mp4), or "
        "log in with a screen (ssh -X)."
    )


def _draws_with_mujoco(config: EnvironmentConfig) -> bool:
    """Whether what makes the environment, or a class it is of, is in a module with MuJoCo."""
    entry = registered(config).entry_point
    creator: object = load_env_creator(entry) if isinstance(entry, str) else entry
    makers = creator.__mro__ if isinstance(creator, type) else (creator,)
    modules = [sys.modules.get(getattr(each, "__module__", "")) for each in makers]
    return any(hasattr(module, "mujoco") for module in modules)


@contextmanager
def explained(config: EnvironmentConfig, mode: Mode) -> Iterator[None]:
    """Say what may be missing when an environment fails where it begins to draw.

    Raises:
        EnvironmentFailed: As the environment did, with advice.
    """
    try:
        yield
    except EnvironmentFailed as error:
        advice = mujoco_advice(config) if mode == "rgb_array" else ""
        text = f"{error} (while drawing, render mode {mode!r}).{advice}"
        raise EnvironmentFailed(text, error.context) from error


def mujoco_advice(config: EnvironmentConfig) -> str:
    """What to do where MuJoCo can't draw images; empty for environments without it."""
    if not _draws_with_mujoco(config):
        return ""
    return (
        f" It was to draw with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r}; without a "
        "screen MUJOCO_GL must be egl, which needs a GPU's or Mesa's libEGL, or osmesa, "
        "which needs libOSMesa (Debian: libegl1, libosmesa6)."
    )
