"""A run that learns from replay, in this process: its logs are filled by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import ReplaySpec, Window
from fast_core.algorithm.spec import Column
from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import (
    NodesConfig,
    OptimizerNodeConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
)
from fast_core.memory import ReplayLog
from fast_core.messages import Train
from fast_core.nodes.replay.batch_slots import BatchSlots
from fast_core.nodes.replay.node import ReplayNode
from tests.closing import until_the_end
from tests.nodes.stage import Stage, drain, make_config

SHARDS, ENVS, STEPS, BATCH = 2, 2, 4, 8
TICKET = SHARDS * ENVS * STEPS


class SayingConfig(DQNConfig, frozen=True, kw_only=True):
    """Says two numbers of each row that was drawn."""

    def columns(self, environment: object) -> tuple[Column, ...]:
        """These."""
        return (Column("said", (2,), "float32", writer="learner"),)


class SequenceConfig(DQNConfig, frozen=True, kw_only=True):
    """Draws sequences; a row before, three, and one after."""

    def replay(self) -> ReplaySpec:
        """Of these."""
        return ReplaySpec(BATCH, sequence=Window(3, 1, 1))


class SayingOfSequencesConfig(SayingConfig, SequenceConfig, frozen=True, kw_only=True):
    """Says two numbers of each row of the sequences that were drawn."""


def replay_config(
    *,
    replay: dict[str, object] | None = None,
    optimizers: int = 1,
    says: bool = False,
    **changes: object,
) -> RunConfig:
    """DQN on CartPole with batches of eight; 2 shards of 2 environments and 4 steps."""
    update = changes.pop("update", "allreduce")
    algorithm = SayingConfig if says else DQNConfig
    config = make_config(
        algorithm=algorithm(hidden_sizes=(4,), batch_size=BATCH),
        rollout=RolloutConfig(shards=SHARDS, envs_per_shard=ENVS, steps=STEPS),
        replay=ReplayConfig(**{"capacity": 400, "learning_starts": 8, **(replay or {})}),
        nodes=NodesConfig(optimizer=OptimizerNodeConfig(count=optimizers, update=update)),
    )
    # Inline, pieces of a checkpoint are written between draws, at moments that a test knows.
    return msgspec.structs.replace(config, **{"mode": "inline", **changes})


@dataclass
class ReplayStage:
    """A replay node with the logs before it and its optimizers' ends of the slots behind it."""

    stage: Stage
    node: ReplayNode
    logs: list[ReplayLog]
    ends: list[BatchSlots]

    @classmethod
    def make(
        cls, folder: Path, config: RunConfig | None = None, checkpoint: Path | None = None
    ) -> ReplayStage:
        stage = Stage(folder, config or replay_config(), checkpoint=checkpoint)
        node = ReplayNode(stage.context("replay-0"))
        node.setup()
        restored = checkpoint is not None and (checkpoint / "replay-0.bin").exists()
        logs = [stage.memory.replay_log(shard, continues=restored) for shard in range(SHARDS)]
        ends = [BatchSlots(stage.plan, stage.memory, k) for k in range(stage.plan.optimizers)]
        return until_the_end(cls(stage, node, logs, ends))

    def collect(self, steps: int = STEPS, *, ends: bool = False) -> None:
        """Append steps of every environment, with observations that tell them apart.

        The last one ``ends`` an episode, if any does.
        """
        for shard, log in enumerate(self.logs):
            for step in range(steps):
                number = log.published()[0]
                obs = np.full((ENVS, 4), number, np.float32)
                obs[:, 0] = shard * ENVS + np.arange(ENVS)
                none = np.zeros(ENVS, np.bool_)
                reward = np.full(ENVS, number, np.float32)
                last = np.full(ENVS, ends and step == steps - 1)
                log.append(obs, np.zeros(ENVS, np.int64), reward, none, last, obs)

    def grant(self, ticket: int, granted: int) -> None:
        """Tell the replay node of a merged ticket."""
        self.stage.hub.send("replay-0", Train(ticket, (), TICKET * ticket, granted))

    def drain(self) -> None:
        """Let the replay node do all it can, and what it does beside its work."""
        drain(self.node)
        doorbell = self.node.context.doorbell
        while (background := self.node._background) is not None:
            seen = doorbell.value()
            if not background.finished:
                doorbell.wait(seen, 1.0)
            drain(self.node)

    def answer(self, error: NDArray[np.float32] | float | None = None, rank: int = 0) -> bool:
        """Finish the next batch of an optimizer; whether there was one."""
        batch = self.ends[rank].next()
        if batch is None:
            return False
        if isinstance(error, float):
            error = np.full(len(batch.reward), error, np.float32)
        self.ends[rank].finish(error)
        return True

    def close(self) -> None:
        self.node.close()


def rows_of(stage: ReplayStage, rank: int = 0) -> list[tuple[int, int]]:
    """Log and row of each window of the batch that an optimizer has."""
    assert stage.ends[rank].next() is not None
    log, row = stage.ends[rank].rows()
    return list(zip(log.tolist(), row.tolist(), strict=True))
