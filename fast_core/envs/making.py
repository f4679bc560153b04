"""Making a Gymnasium environment and describing it."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from fast_core.config import EnvironmentConfig
from fast_core.envs.atari import atari_kwargs, import_ale, preprocess
from fast_core.envs.description import Description, describe
from fast_core.envs.mujoco_warnings import catch_mujoco_warnings
from fast_core.errors import ConfigError
from fast_core.text import error_text

Env = gymnasium.Env[Any, Any]


def make_env(config: EnvironmentConfig) -> Env:
    """Make the configured environment.

    Raises:
        ConfigError: No environment of this name is registered, a module can't be imported, or
            ``environment.atari`` does not fit.
        Exception: Whatever its constructor raises.
    """
    spec = registered(config)
    kwargs: dict[str, Any] = dict(config.kwargs)
    if config.atari is None:
        return gymnasium.make(spec, disable_env_checker=True, **kwargs)
    if config.frame_skip > 1:
        raise ConfigError(
            f"environment.frame_skip {config.frame_skip} and environment.atari contradict each "
            "other; use environment.atari.frame_skip"
        )
    limit = kwargs.pop("max_episode_steps", None)
    kwargs = atari_kwargs(spec, kwargs)
    return preprocess(gymnasium.make(spec, disable_env_checker=True, **kwargs), config.atari, limit)


def registered(config: EnvironmentConfig) -> EnvSpec:
    """What is registered under the configured id; imports what registers it first.

    Raises:
        ConfigError: No environment of this name is registered, or a module can't be imported.
    """
    module, _, name = config.id.rpartition(":")  # Gymnasium's "module:name"
    for each in (*config.modules, module) if module else config.modules:
        _import(each)
    if config.atari is not None or name.startswith("ALE/"):
        import_ale()
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=3, cutoff=0.5)
        hint = f"Nearest: {', '.join(map(repr, near))}. " if near else ""
        raise ConfigError(
            f"environment.id must name a registered environment; got {config.id!r} ({error}). "
            f"{hint}environment.modules names the modules that register your own."
        ) from error
    if str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        catch_mujoco_warnings()
    return spec


def _import(module: str) -> None:
    try:
        importlib.import_module(module)
    except BaseException as error:  # a user's module may raise anything
        raise ConfigError(
            f"environment.modules or environment.id names the module {module!r}, which can't be "
            f"imported: {error_text(error)}"
        ) from error


def describe_env(env: Env, config: EnvironmentConfig) -> Description:
    """Describe ``env`` as it is, without trying whether it is repeatable.

    Raises:
        ConfigError: A space is not supported, or does not fit the configuration.
    """
    limit = env.spec.max_episode_steps if env.spec else None
    return describe(config, env.observation_space, env.action_space, limit)
