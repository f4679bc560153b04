"""A part of a run: a second reader of the replay, which answers tickets.

For every ticket it draws rows as the learner does, and says in how many cells of the space of
observations they lie: whether what is learnt from is varied.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fast_core.config import RunConfig
from fast_core.errors import ConfigError
from fast_core.memory import ReplayReader
from fast_core.messages import Command, Followed, Ready, Train
from fast_core.node import Node, NodeState, Part, Role, RunPlan


class Census(Part):
    """Brings one node. Settings: ``rows`` that are drawn for a ticket, and ``cell``, their size."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The run survives two deaths of it: it knows nothing that it could not draw again."""
        yield Role("census", f"{__name__}:CensusNode", deaths=2)

    def check(self, plan: RunPlan) -> None:
        """Refuse a run without replay."""
        if not plan.names.replay:
            raise ConfigError("the census reads the replay: use an algorithm that learns from it")


class CensusNode(Node):
    """Gets every ticket with the learner; the next one begins when both are done with it."""

    consumes = frozenset({Train})
    emits = frozenset({Ready, Followed})
    reads = frozenset({"replay"})

    def setup(self) -> None:
        """Attach to the logs of all shards."""
        plan, memory, settings = self.context.plan, self.context.memory, self.context.settings
        logs = [memory.replay_log(shard) for shard in range(plan.config.rollout.shards)]
        seed = np.random.SeedSequence(plan.config.seed, spawn_key=(self.context.life,))
        frames = plan.environment.frames
        self._reader = ReplayReader(logs, steps=1, gamma=1.0, frames=frames, seed=seed)
        self._drawn = self._reader.arrays(int(settings.get("rows", 1_000)))
        self._cell = np.asarray(settings.get("cell", 0.1))

    def handle(self, command: Command) -> None:
        """Count, and say so."""
        assert isinstance(command, Train)
        with self.state(NodeState.DRAWING, f"counting for ticket {command.ticket}"):
            if self._reader.draw(self._drawn):
                cells = np.unique(np.floor(self._drawn.obs / self._cell), axis=0)
                self.log_figures({"cells": len(cells)})
        self.context.channel.send(Followed(self.context.name, command.ticket))
