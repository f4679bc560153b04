"""Whether a task of EnvPool can be drawn here, found out where nothing is lost.

What EnvPool draws with may end the process instead of raising: its MuJoCo does where it finds no
OpenGL. So a child draws one environment first.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache

import msgspec

from fast_core.envs.drawing.drawable import NotYet

LIMIT_S = 30.0
# On Linux it ends with the thread that began it, whatever it hangs in.
_TIED = """
import ctypes
tie = getattr(ctypes.CDLL(None), "prctl", None)
tie and tie(1, 9)
"""
_SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import envpool
pool = envpool.make_gymnasium(sys.argv[1], num_envs=1, **json.loads(sys.argv[2]))
pool.reset()
pool.render([0])
"""


def try_drawing(task: str, arguments: Mapping[str, object]) -> None:
    """See what became of a child that draws an environment of ``task``; the first call begins it.

    Raises:
        NotYet: It is at it.
        RuntimeError: It could not be drawn; the message has what the child said last.
    """
    trial = _trial(task, msgspec.json.encode(arguments).decode())
    why = trial.why_not()
    if why:
        raise RuntimeError(why)


class _Trial:
    """A child that draws, and what became of it."""

    def __init__(self, task: str, arguments: str) -> None:
        self._task, self._until_s = task, time.monotonic() + LIMIT_S
        self._child = subprocess.Popen(
            [sys.executable, "-c", _TIED + _SCRIPT, task, arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._why: str | None = None

    def why_not(self) -> str:
        """Why it can't be drawn; empty where it can.

        Raises:
            NotYet: The child is at it.
        """
        if self._why is None:
            if self._child.poll() is None and time.monotonic() < self._until_s:
                raise NotYet(f"a child of this process tries whether EnvPool can draw {self._task}")
            self._why = self._ended()
        return self._why

    def _ended(self) -> str:
        if self._child.returncode is None:
            self._child.kill()
            self._child.communicate()
            return f"EnvPool did not draw {self._task!r} within {LIMIT_S:g} s"
        said, _ = self._child.communicate()
        if self._child.returncode == 0:
            return ""
        last = next((line.strip() for line in reversed(said.split("\n")) if line.strip()), "")
        return f"EnvPool can't draw {self._task!r} here: {last or self._child.returncode}"


_trial = cache(_Trial)
