"""Environments: adapters that step many of them together, behind one contract.

Importing this package does not import Gymnasium; making something does.
"""

from __future__ import annotations

from typing import Unpack

from fast_core.config import EnvironmentConfig
from fast_core.envs.stepping.batch import Batched, EnvBatch
from fast_core.envs.stepping.batch_state import FinishedEpisodes

__all__ = [
    "Batched",
    "EnvBatch",
    "FinishedEpisodes",
    "make_batch",
]


def make_batch(config: EnvironmentConfig, **which: Unpack[Batched]) -> EnvBatch:
    """Make environments of a shard with the adapter of ``environment.backend``.

    Raises:
        ConfigError: No such environment, or its spaces are not supported.
        EnvironmentFailed: A constructor raised.
    """
    # here, so that who only needs the types does not pay 0.2 s for Gymnasium
    if config.one_by_one:
        from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch

        return GymnasiumBatch(config, **which)
    from fast_core.envs.stepping.vector_batch import VectorBatch

    return VectorBatch(config, **which)
