"""Which environments an evaluation plays in."""

from __future__ import annotations

from msgspec.structs import replace

from fast_core.config import EnvironmentConfig

_VECTOR_ONLY = ("autoreset_mode", "num_threads")


def evaluated(config: EnvironmentConfig) -> EnvironmentConfig:
    """The environments in which what was trained in those of ``config`` is evaluated.

    Atari games count their own score, whatever training does about rewards, and nothing is taken
    off where an episode is cut. In place of a vectorised Gymnasium environment its scalar form
    plays, where every episode has its seed.
    """
    config = replace(config, no_reward_penalty=0.0)
    atari = config.atari
    if atari is not None:
        config = replace(config, atari=replace(atari, clip_rewards=False))
    return scalar(config)


def scalar(config: EnvironmentConfig) -> EnvironmentConfig:
    """The same environments one by one, where a vectorised Gymnasium environment has them."""
    if config.backend == "gymnasium_vector":
        kwargs = {name: each for name, each in config.kwargs.items() if name not in _VECTOR_ONLY}
        config = replace(config, backend="gymnasium", kwargs=kwargs)
    return config
