"""Environments of a run that can be watched: made so that they draw themselves, if they can."""

from __future__ import annotations

import ctypes
import inspect
import logging
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

from gymnasium.envs.registration import load_env_creator
from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs.making import registered
from fast_core.system.text import error_text

T = TypeVar("T")

MODE, TEXT_MODE = "rgb_array", "ansi"
# The key of an environment's metadata in which one that draws and writes says which is to be shown.
PREFERRED = "watch_mode"
PREFERRED_BY_HAND = "play_mode"  # the same where a person plays
_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
_OSMESA = ("libOSMesa.so.8", "libOSMesa.so.6")


def make_to_draw(
    config: EnvironmentConfig, make: Callable[[EnvironmentConfig], T], entry: object = None
) -> tuple[T, str]:
    """``make`` the environment so that it draws or writes itself, or, if that can't be, as it is.

    Nothing that drawing needs can end a run that would train without. ``entry`` is what makes it,
    if it is not what is registered as its ``entry_point``.

    Returns:
        The environment, and why it can't be drawn; empty where it can.

    Raises:
        Exception: What ``make`` raises for the environment as it is.
    """
    drawing, why = with_render_mode(config, entry)
    if not why and drawing is not config:
        try:
            return make(drawing), ""
        except Exception as error:  # a constructor may raise anything
            mode = drawing.kwargs["render_mode"]
            why = f"it can't be made with render_mode {mode!r}: {error_text(error)}"
    return make(config), why


def with_render_mode(config: EnvironmentConfig, entry: object) -> tuple[EnvironmentConfig, str]:
    """The configuration of an environment that draws, or else the same and why it does not.

    One that can't draw, or whose metadata prefer it, writes.

    Raises:
        ConfigError: There is no such environment.
    """
    if "render_mode" in config.kwargs:
        mode = config.kwargs["render_mode"]
        shown = mode in (MODE, TEXT_MODE)
        return config, "" if shown else f"environment.kwargs.render_mode is {mode!r}"
    entry = entry or registered(config).entry_point
    creator: object = load_env_creator(entry) if isinstance(entry, str) else entry
    why = why_not_drawn(creator)
    if why:
        return config, why
    return replace(config, kwargs={**config.kwargs, "render_mode": _mode(creator)}), ""


def why_not_drawn(creator: object) -> str:
    """Why what ``creator`` makes can't be drawn, as far as one can tell; empty: perhaps it can."""
    name = getattr(creator, "__name__", type(creator).__name__)
    metadata = getattr(creator, "metadata", None)
    if isinstance(metadata, Mapping) and not {MODE, TEXT_MODE} & _modes(metadata):
        return f"{name} has neither {MODE!r} nor {TEXT_MODE!r} in its metadata['render_modes']"
    if callable(creator) and not _takes_mode(creator):
        return f"{name} takes no render_mode"
    return ""


def _modes(metadata: Mapping[str, Any]) -> set[object]:
    return set(metadata.get("render_modes") or ())


def _mode(creator: object) -> str:
    """The mode in which what ``creator`` makes is watched."""
    metadata = getattr(creator, "metadata", None)
    if not isinstance(metadata, Mapping):
        return MODE
    modes = _modes(metadata)
    writes = TEXT_MODE in modes and (MODE not in modes or metadata.get(PREFERRED) == TEXT_MODE)
    return TEXT_MODE if writes else MODE


def _takes_mode(creator: Callable[..., object]) -> bool:
    try:
        takes = inspect.signature(creator).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(each.name == "render_mode" or each.kind is each.VAR_KEYWORD for each in takes)


def has_screen(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether windows can be opened, as far as one can tell."""
    return not sys.platform.startswith("linux") or any(environ.get(name) for name in _SCREENS)


def let_draw_without_screen() -> None:
    """Without a screen, let SDL draw in memory and MuJoCo with a library that is there.

    Before anything is imported that draws. What the user has set stays.
    """
    if has_screen():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    logging.getLogger("OpenGL.acceleratesupport").setLevel(logging.WARNING)  # it tells of itself
    if "MUJOCO_GL" in os.environ or find_spec("mujoco") is None:
        return
    if _egl_has_devices():
        os.environ["MUJOCO_GL"] = "egl"
    elif any(map(_load, _OSMESA)):
        os.environ["MUJOCO_GL"] = "osmesa"


def _egl_has_devices(library: str = "libEGL.so.1") -> bool:
    """Whether EGL has anything to draw with; where it has not, MuJoCo may not even be imported."""
    egl = _load(library)
    if egl is None:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return False
    count = ctypes.c_int()
    kind = ctypes.CFUNCTYPE(
        ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
    )
    return bool(kind(address)(0, None, ctypes.byref(count))) and count.value > 0


def _load(library: str) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(library)
    except OSError:
        return None
