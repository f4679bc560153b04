"""Which environments of a run can be watched."""

from __future__ import annotations

from typing import NamedTuple

from fast_core.config import RunConfig


class Tile(NamedTuple):
    """A place on the screen, and what is shown there.

    Attributes:
        number: Its place; frames lie in ``frames/<number>``.
        shard: Shard of the environment; None for the evaluator's.
        env: Number of the environment within the shard, or among the evaluator's.
    """

    number: int
    shard: int | None
    env: int


def tiles(config: RunConfig) -> tuple[Tile, ...]:
    """The tiles of a run: training environments, one of each shard first; last an evaluated one."""
    if not config.dashboard.enabled:
        return ()
    count = min(config.dashboard.tiles, config.envs)
    shards = config.rollout.shards
    chosen = [Tile(index, index % shards, index // shards) for index in range(count)]
    if config.dashboard.evaluation and config.evaluation.every_env_steps is not None:
        chosen.append(Tile(count, None, 0))
    return tuple(chosen)
