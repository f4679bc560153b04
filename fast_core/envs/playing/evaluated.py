"""Which environments an evaluation plays in."""

from __future__ import annotations

from msgspec.structs import replace

from fast_core.config import EnvironmentConfig
from fast_core.envs.backends import backend_class


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
