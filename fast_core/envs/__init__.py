"""Environments: adapters that step many of them together, behind one contract.

Importing this package does not import Gymnasium; making something does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from fast_core.config import EnvironmentConfig
from fast_core.envs.stepping.batch import EnvBatch
from fast_core.envs.stepping.batch_state import FinishedEpisodes
from fast_core.envs.stepping.open_episodes import ProgressWord, progress_words, read_progress
from fast_core.seeding import Role
from fast_core.spec import Column

__all__ = [
    "EnvBatch",
    "FinishedEpisodes",
    "ProgressWord",
    "make_batch",
    "progress_words",
    "read_progress",
]


def make_batch(
    config: EnvironmentConfig,
    *,
    seed: int,
    shard: int,
    envs: int,
    first_env: int = 0,
    role: Role = Role.ENVIRONMENT_EPISODE,
    incarnation: int = 1,
    progress: memoryview | None = None,
    keep_actions: bool = True,
    number: int = 0,
    draws: Collection[int] = (),
    columns: Sequence[Column] = (),
) -> EnvBatch:
    """Make ``envs`` environments of ``shard`` with the adapter of ``environment.backend``.

    See `GymnasiumBatch` for the arguments.

    Raises:
        ConfigError: No such environment, or its spaces are not supported.
        EnvironmentFailed: A constructor raised.
    """
    # here, so that who only needs the types does not pay 0.2 s for Gymnasium
    adapter: Callable[..., EnvBatch]
    if config.one_by_one:
        from fast_core.envs.stepping.gymnasium_batch import GymnasiumBatch

        adapter = GymnasiumBatch
    else:
        from fast_core.envs.stepping.vector_batch import VectorBatch

        adapter = VectorBatch
    return adapter(
        config,
        seed=seed,
        shard=shard,
        envs=envs,
        first_env=first_env,
        role=role,
        incarnation=incarnation,
        progress=progress,
        keep_actions=keep_actions,
        number=number,
        draws=draws,
        columns=columns,
    )
