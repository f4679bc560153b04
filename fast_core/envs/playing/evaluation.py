"""Which environments an evaluation plays in, and what plays them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs.backends import backend_class
from fast_core.envs.instance import Instance
from fast_core.envs.making import Maker, make_env
from fast_core.envs.playing.episodes import EpisodeRunner
from fast_core.envs.playing.runner import Playing, Record, Runner
from fast_core.errors import ConfigError


def make_runner(
    config: EnvironmentConfig,
    *,
    watch: Callable[[Instance], None] | None = None,
    record: Record | None = None,
    every_info: bool = False,
    maker: Maker = make_env,
    **playing: Unpack[Playing],
) -> Runner:
    """What plays exactly ``episodes`` episodes in `evaluated` environments; see `EpisodeRunner`.

    Raises:
        ConfigError: As `make_batch`; or what can't be recorded is to be.
        EnvironmentFailed: A constructor raised.
    """
    config = evaluated(config)
    if config.one_by_one:
        return EpisodeRunner(
            config,
            watch=watch,
            record=record,
            every_info=every_info,
            maker=maker,
            **playing,
        )
    if record is not None:
        raise ConfigError(
            "trajectories are recorded with environment.backend gymnasium; got "
            f"{config.backend!r}. Evaluate in the environment of Gymnasium, or without a record."
        )
    # here, because it imports what only this backend needs
    from fast_core.envs.playing.vector_episodes import VectorEpisodes

    return VectorEpisodes(config, **playing)


def evaluated(config: EnvironmentConfig) -> EnvironmentConfig:
    """The environments in which what was trained in those of ``config`` is evaluated.

    Atari games count their own score, whatever training does about rewards, and nothing is taken
    off where an episode is cut. In place of environments that a library steps together plays the
    one that there is alone, if there is one (`Backend.alone`): there every episode has its seed.
    """
    config = replace(config, no_reward_penalty=0.0)
    atari = config.atari
    if atari is not None:
        config = replace(config, atari=replace(atari, clip_rewards=False))
    return scalar(config)


def scalar(config: EnvironmentConfig) -> EnvironmentConfig:
    """The same environments one by one, where what steps them together has them so too."""
    if config.one_by_one:
        return config
    return backend_class(config).alone(config) or config
