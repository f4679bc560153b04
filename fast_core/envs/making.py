"""Making a Gymnasium environment and describing it."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import gymnasium

from fast_core.config import EnvironmentConfig
from fast_core.envs.spaces import space_spec
from fast_core.errors import ConfigError
from fast_core.spec import EnvironmentSpec

Env = gymnasium.Env[Any, Any]


def make_env(config: EnvironmentConfig) -> Env:
    """Make the configured environment.

    Raises:
        ConfigError: No environment of this name is registered, or a module can't be imported.
        Exception: Whatever its constructor raises.
    """
    module, _, name = config.id.rpartition(":")  # Gymnasium's "module:name"
    for each in (*config.modules, module) if module else config.modules:
        _import(each)
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
        hint = f"Nearest: {', '.join(map(repr, near))}. " if near else ""
        raise ConfigError(
            f"environment.id must name a registered environment; got {config.id!r} ({error}). "
            f"{hint}environment.modules names the modules that register your own."
        ) from error
    kwargs: dict[str, Any] = dict(config.kwargs)
    return gymnasium.make(spec, disable_env_checker=True, **kwargs)


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(
            f"environment.modules or environment.id names the module {module!r}, which can't be "
            f"imported: {type(error).__name__}: {error}"
        ) from error


def environment_spec(env: Env, config: EnvironmentConfig) -> EnvironmentSpec:
    """Describe ``env`` as it is, without trying whether it is repeatable.

    Raises:
        ConfigError: A space is not supported.
    """
    return EnvironmentSpec(
        id=config.id,
        observation=space_spec(env.observation_space, f"the observation space of {config.id!r}"),
        action=space_spec(env.action_space, f"the action space of {config.id!r}"),
        max_episode_steps=env.spec.max_episode_steps if env.spec else None,
    )
