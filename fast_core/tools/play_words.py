"""A person plays an environment that writes text, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fast_core.config import EnvironmentConfig
from fast_core.envs.description import INFO
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
        while _episode(env, config.action_mask):
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


def _episode(env: Env, masked: str | None) -> bool:
    """Play one, with what ``environment.action_mask`` allows; whether another one is wanted."""
    obs, info = env.reset()
    total, steps, over = 0.0, 0, False
    while not over:
        print(f"\n{as_text(env.render()) or ''}", flush=True)
        action = ask(env, None if masked is None else _mask(masked, obs, info))
        if action is None:
            return False
        obs, reward, terminated, truncated, info = env.step(action)
        total, steps, over = total + float(reward), steps + 1, terminated or truncated
    print(f"\n{as_text(env.render()) or ''}\nreturn {total:g}, {steps} steps", flush=True)
    return True


def _mask(key: str, obs: Any, info: Any) -> NDArray[np.generic]:
    """What is allowed, by the info or a leaf of the observation."""
    if key.startswith(INFO):
        return np.ravel(info[key.removeprefix(INFO)])
    for part in key.split("/"):
        obs = obs[part] if isinstance(obs, Mapping) else obs[int(part)]
    return np.ravel(obs)


def ask(env: Env, mask: NDArray[np.generic] | None = None) -> Any:
    """The action that is chosen, one that the mask allows; None at the end.

    Where all have names of one letter or digit, these are the keys.
    """
    space: Any = env.action_space
    first, names = int(getattr(space, "start", 0)), _names(env)
    choices = range(len(names) or int(space.n))
    allowed = [choice for choice in choices if mask is None or mask[choice]]
    answers = {name: choice for choice, name in reversed([*enumerate(names)])}
    if names and all(len(name) == 1 for name in names):
        prompt = " ".join(names[choice] for choice in allowed)
    else:
        answers = {str(first + choice): choice for choice in choices} | answers
        prompt = f"{first} to {first + len(choices) - 1}"
        for choice, name in enumerate(names):
            print(f"  {first + choice}: {name}")
    while True:
        said = input(f"{prompt}: ").strip()
        if said == "q":
            return None
        if said not in answers:
            print(f"{said!r} is none of them")
        elif answers[said] not in allowed:
            print(f"{said!r} is not allowed now")
        else:
            return space.dtype.type(first + answers[said])


def _names(env: Env) -> Sequence[str]:
    """What can be chosen now, by name; empty where choices have none."""
    for name in ("offered", "get_action_meanings"):
        if env.has_wrapper_attr(name):
            found = env.get_wrapper_attr(name)
            return tuple(found() if callable(found) else found)
    return ()
