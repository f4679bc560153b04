"""MuJoCo's warnings, which would otherwise land in a file MUJOCO_LOG.TXT in the current folder."""

from __future__ import annotations

import importlib
import logging
import os

from fast_core.errors import ConfigError

_seen: set[str] = set()


def catch_mujoco_warnings() -> None:
    """Send them to the log, each once in a process; does nothing where MuJoCo is missing.

    Raises:
        ConfigError: MuJoCo is there, but not what MUJOCO_GL says it shall draw with.
    """
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError:
        return  # making the environment says so
    except Exception as error:  # whatever OpenGL's bindings raise
        raise ConfigError(
            f"MuJoCo can't be imported with MUJOCO_GL={os.environ.get('MUJOCO_GL', '')!r}: "
            f"{type(error).__name__}: {error}. Unset MUJOCO_GL, or install what it needs "
            "(Debian: libegl1 for egl, libosmesa6 for osmesa)."
        ) from error
    mujoco.set_mju_user_warning(_log)


def _log(text: str) -> None:
    text = text.strip()
    if text in _seen:
        return
    _seen.add(text)
    # Nobody who runs Gymnasium's models can do anything about what they are written in.
    level = logging.DEBUG if "deprecated" in text else logging.WARNING
    logging.getLogger("fastloop.mujoco").log(level, "MuJoCo: %s", text)
