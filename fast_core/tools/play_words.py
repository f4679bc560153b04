"""A person plays an environment that writes text, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fast_core.config import EnvironmentConfig
from fast_core.envs.making import Env, make_env
from fast_core.envs.playing.rendering import drawing
from fast_core.errors import ConfigError
from fast_core.monitor.screens.picture import as_text

INTERRUPTED = 130


def play_in_words(config: EnvironmentConfig) -> int:
    """Ask for one action after the other, until the input ends, somebody writes q, or Ctrl-C.

    Returns:
        The exit status.

    Raises:
        ConfigError: An action is more than one choice.
    """
    env = make_env(drawing(config, "ansi"))
    try:
        _check(env, config)
        print("Write an action's number, or its name; q or Ctrl-D ends it.", flush=True)
        while _episode(env):
            pass
    except EOFError:
        pass
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        env.close()
    return 0


def _check(env: Env, config: EnvironmentConfig) -> None:
    if getattr(env.action_space, "n", None) is None or getattr(env.action_space, "shape", None):
        raise ConfigError(
            f"environment {config.id!r} can't be played in the terminal: its actions are "
            f"{env.action_space}, not one choice of several"
        )


def _episode(env: Env) -> bool:
    """Play one; whether another one is wanted."""
    env.reset()
    total, steps, over = 0.0, 0, False
    while not over:
        print(f"\n{as_text(env.render()) or ''}", flush=True)
        action = ask(env)
        if action is None:
            return False
        _, reward, terminated, truncated, _ = env.step(action)
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    print(f"\n{as_text(env.render()) or ''}\nreturn {total:g}, {steps} steps", flush=True)
    return True


def ask(env: Env) -> Any:
    """The action that is chosen; None at the end."""
    space: Any = env.action_space
    names = _names(env)
    first, count = int(getattr(space, "start", 0)), len(names) or int(space.n)
    for number, name in enumerate(names):
        print(f"  {first + number}: {name}")
    while True:
        said = input(f"{first} to {first + count - 1}: ").strip()
        if said == "q":
            return None
        if said in names:
            return space.dtype.type(first + names.index(said))
        if said.removeprefix("-").isdecimal() and first <= int(said) < first + count:
            return space.dtype.type(int(said))
        print(f"{said!r} is none of them")


def _names(env: Env) -> Sequence[str]:
    """What can be chosen now, by name; empty where choices have none."""
    for name in ("offered", "get_action_meanings"):
        if env.has_wrapper_attr(name):
            found = env.get_wrapper_attr(name)
            return tuple(found() if callable(found) else found)
    return ()
