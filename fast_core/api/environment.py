"""A single environment, made as training makes it, to look at."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from typing import Any, SupportsFloat, cast

import gymnasium
from gymnasium.wrappers import FrameStackObservation
from msgspec import to_builtins

from fast_core.api import sending
from fast_core.api.config import Config, as_config, environment_of
from fast_core.api.runs import Run
from fast_core.config import EnvironmentConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.envs.instance import make_seeded, repeating, seed_spaces
from fast_core.envs.making import check_attributes, describe_env
from fast_core.envs.making import make_env as make_configured
from fast_core.envs.pickled import Maker, loads
from fast_core.envs.place import VARIABLES
from fast_core.envs.playing.evaluation import scalar
from fast_core.envs.stepping.no_reward import no_reward
from fast_core.errors import ConfigError
from fast_core.system.seeding import EpisodeSeeds, Role, generators_kept
from fast_core.system.surroundings import variables_kept

Env = gymnasium.Env[Any, Any]
_KEY = (Role.ENVIRONMENT_EPISODE, 0, 0, 1)  # the first environment of the first shard, first made


def make_env(
    what: Config | Run | str | PathLike[str] | Mapping[str, object] | Callable[..., object],
    *,
    seed: int | None = None,
    **environment: object,
) -> Env:
    """The first environment of a run, as training makes it.

    With its wrappers, the preprocessing of ``environment.atari``, repeated actions and stacked
    frames. A reset without a seed begins the next of the episodes that it begins in training.

    Args:
        what: A configuration, as of `train`; a run; an environment's id; or what makes one.
        seed: Seed of the run; that of the configuration, or 0.
        environment: Keys below ``environment`` to change, such as ``frame_stack=4``.

    Raises:
        ConfigError: There is no such environment, or training could not use it.
    """
    config, given, maker = _configured(what, environment)
    seed = given if seed is None else seed
    backend, config = config.backend, scalar(config)
    if not config.one_by_one:
        raise ConfigError(
            f"make_env makes single environments, and environment.backend {backend!r} has none "
            f"for {config.id!r}, only batches. Make them with that library itself."
        )
    with generators_kept(), variables_kept(VARIABLES):
        make = make_configured if maker is None else partial(make_configured, maker=maker)
        env = make_seeded(config, seed, _KEY, maker=make)
    try:
        check_attributes(env, config)
        describe_env(env, config)
        seed_spaces(env, seed, _KEY)
        return _Episodes(_as_seen(env, config), seed, config)
    except BaseException:
        env.close()
        raise


def _configured(
    what: object, keys: Mapping[str, object]
) -> tuple[EnvironmentConfig, int, Maker | None]:
    """The environment's configuration, the seed of the run, and what makes it if not its id."""
    if sending.is_object(what):
        maker = sending.checked_maker(what)
        return environment_of({"id": sending.label_of(maker), **keys}), 0, maker
    if isinstance(what, Run):
        what._files.look_where_it_began()
        what = what._config(algorithm_config_type)
    is_file = isinstance(what, PathLike) or str(what).endswith((".yaml", ".yml"))
    if isinstance(what, Config) or is_file or (isinstance(what, Mapping) and "environment" in what):
        config = as_config(cast("Config", what), None)
        found = environment_of({**to_builtins(config.environment), **keys})
        return found, config.seed, None if config.code is None else loads(config.code)
    if isinstance(what, Mapping):
        return environment_of({**what, **keys}), 0, None
    return environment_of({"id": what, **keys}), 0, None


def _as_seen(env: Env, config: EnvironmentConfig) -> Env:
    if config.frame_skip > 1:
        env = _Repeating(env, config.frame_skip)
    if config.no_reward_timeout_steps is not None:
        env = _Cut(env, config)
    if config.frame_stack > 1:
        env = FrameStackObservation(env, config.frame_stack)
    return env


class _Repeating(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Takes each action several times, as ``environment.frame_skip`` says."""

    def __init__(self, env: Env, times: int) -> None:
        super().__init__(env)
        self._step = repeating(env.step, times)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        return cast("tuple[Any, float, bool, bool, dict[str, Any]]", self._step(action))


class _Cut(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Truncates an episode in which nothing is gained for too long."""

    def __init__(self, env: Env, config: EnvironmentConfig) -> None:
        super().__init__(env)
        self._config = config

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._no_reward = no_reward(self._config, 1)
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        due = self._no_reward is not None and self._no_reward.due_at(0, float(reward))
        if due and not (terminated or truncated):
            reward, truncated = float(reward) + self._config.no_reward_penalty, True
        return obs, reward, terminated, truncated, info


class _Episodes(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Begins the episodes of training, one after the other."""

    def __init__(self, env: Env, seed: int, config: EnvironmentConfig) -> None:
        super().__init__(env)
        self._seeds, self._config = EpisodeSeeds(seed, Role.ENVIRONMENT_EPISODE, 0, 0), config
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin the next episode of training, or the one that ``seed`` gives."""
        if seed is None:
            self._episode += 1
            seed = self._seeds[self._episode]
        if options is None:
            options = copy.deepcopy(self._config.reset_options)
        for name, value in self._config.attributes.items():
            self.env.set_wrapper_attr(name, copy.deepcopy(value))
        return self.env.reset(seed=seed, options=options)
