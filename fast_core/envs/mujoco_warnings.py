"""MuJoCo's warnings, which would otherwise land in a file MUJOCO_LOG.TXT in the current folder."""

from __future__ import annotations

import importlib
import logging

_seen: set[str] = set()


def catch_mujoco_warnings() -> None:
    """Send them to the log, each once in a process; does nothing where MuJoCo is missing."""
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError:
        return  # making the environment says so
    mujoco.set_mju_user_warning(_log)


def _log(text: str) -> None:
    text = text.strip()
    if text in _seen:
        return
    _seen.add(text)
    # Nobody who runs Gymnasium's models can do anything about what they are written in.
    level = logging.DEBUG if "deprecated" in text else logging.WARNING
    logging.getLogger("fastloop.mujoco").log(level, "MuJoCo: %s", text)
