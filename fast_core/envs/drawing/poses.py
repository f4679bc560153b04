"""Environments that are drawn from a few numbers, so that another process can draw them.

Gymnasium's classic control and MuJoCo environments, as they are: nothing but these numbers and what
the environment was made with shows in their pictures.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker
from numpy.typing import NDArray

from fast_core.envs.making import Env, layers

Pose = NDArray[np.float64]

MOST = 256  # numbers
_CLASSIC = "gymnasium.envs.classic_control."
_MUJOCO = "gymnasium.envs.mujoco."


def posed(env: Env) -> Callable[[], Pose | None] | None:
    """What gives the numbers ``[n]`` that ``env`` is drawn from, None before its first reset.

    None where it is drawn from more than that: any class of one's own, a wrapper that draws, or one
    of one's own, which may change lengths and bodies as it likes.
    """
    *wrappers, found = layers(env)
    inner: Any = found
    if any(_draws(wrapper) or _is_own(wrapper) for wrapper in wrappers):
        return None
    module = type(inner).__module__
    if module.startswith(_CLASSIC):
        return lambda: _classic_pose(inner)
    if module.startswith(_MUJOCO) and hasattr(inner, "mujoco_renderer"):
        return lambda: np.array(inner.data.qpos) if inner.model.nq <= MOST else None
    return None


def _draws(wrapper: Env) -> bool:
    kind = type(wrapper)
    return kind not in (OrderEnforcing, PassiveEnvChecker) and (
        kind.render is not gymnasium.Wrapper.render
    )


def _is_own(wrapper: Env) -> bool:
    return type(wrapper).__module__.partition(".")[0] not in ("gymnasium", "fast_core")


def _classic_pose(inner: Any) -> Pose | None:
    state = getattr(inner, "state", None)
    if state is None:
        return None
    pose = [*state]
    if hasattr(inner, "last_u"):  # the torque that Pendulum draws, None after a reset
        pose.append(math.nan if inner.last_u is None else float(inner.last_u))
    return np.array(pose, np.float64)


def take_pose(env: Env, pose: Pose) -> None:
    """Bring ``env``, which has been reset, to where another one was, to be drawn.

    Raises:
        Exception: It is none that `posed` knows, or has other numbers.
    """
    inner: Any = env.unwrapped
    if type(inner).__module__.startswith(_MUJOCO):
        inner.data.qpos[:] = pose
        sys.modules["mujoco"].mj_forward(inner.model, inner.data)
        return
    if hasattr(inner, "last_u"):
        *state, last = pose
        inner.state, inner.last_u = np.array(state), None if math.isnan(last) else last
    else:
        inner.state = np.array(pose)
