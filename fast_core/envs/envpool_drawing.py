"""Whether a task of EnvPool can be drawn here, found out where nothing is lost.

What EnvPool draws with may end the process instead of raising: its MuJoCo does where it finds no
OpenGL. So a child draws one environment first.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import cache

import msgspec

LIMIT_S = 10.0
_SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import envpool
pool = envpool.make_gymnasium(sys.argv[1], num_envs=1, **json.loads(sys.argv[2]))
pool.reset()
pool.render([0])
"""


def try_drawing(task: str, arguments: Mapping[str, object]) -> None:
    """Draw an environment of ``task`` in a child, the first time that this process is asked.

    Raises:
        RuntimeError: It could not be drawn; the message has what the child said last.
    """
    why = _why_not(task, msgspec.json.encode(arguments).decode())
    if why:
        raise RuntimeError(why)


@cache
def _why_not(task: str, arguments: str) -> str:
    command = [sys.executable, "-c", _SCRIPT, task, arguments]
    try:
        tried = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"EnvPool did not draw {task!r} within {LIMIT_S:g} s"
    if tried.returncode == 0:
        return ""
    said = tried.stderr.split("\n") + tried.stdout.split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"EnvPool can't draw {task!r} here: {last or f'status {tried.returncode}'}"
