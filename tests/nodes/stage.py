"""One run's plan, memory and channel in this process, for nodes that are driven by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from fast_core.algos.ppo.config import PPOConfig
from fast_core.config import (
    EnvironmentConfig,
    EvaluationConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
)
from fast_core.distributed.inproc import InprocHub
from fast_core.events import Event, RolloutOrder, RolloutRef
from fast_core.launcher.prepare import make_plan, resolve
from fast_core.memory import Structure
from fast_core.nodes.node import Node, NodeContext
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.spec import EnvironmentSpec, SpaceSpec

CARTPOLE = EnvironmentSpec(
    id="CartPole-v1",
    observation=SpaceSpec("box", (4,), "float32", low=(-5.0,) * 4, high=(5.0,) * 4),
    action=SpaceSpec("discrete", (), "int64", n=2),
    max_episode_steps=500,
)


def make_config(**changes: object) -> RunConfig:
    """A small CartPole run of 2 shards of 2 environments and 8 steps."""
    config = RunConfig(
        name="toy",
        environment=EnvironmentConfig(id="CartPole-v1"),
        rollout=RolloutConfig(shards=2, envs_per_shard=2, steps=8),
        algorithm=PPOConfig(name="ppo", hidden_sizes=(4,), minibatch_size=16, epochs=1),
        evaluation=EvaluationConfig(episodes=3, envs=2),
        stop=StopConfig(env_steps=1000),
    )
    return msgspec.structs.replace(config, **changes)


def stacked(frames: int) -> EnvironmentSpec:
    """CartPole of which a policy sees the last ``frames`` observations."""
    box = SpaceSpec("box", (frames, 4), "float32", low=(-5.0,), high=(5.0,))
    return msgspec.structs.replace(CARTPOLE, observation=box, frames=frames)


def make_run_plan(
    folder: Path,
    config: RunConfig | None = None,
    *,
    checkpoint: Path | None = None,
    cores: int = 2,
    environment: EnvironmentSpec = CARTPOLE,
) -> RunPlan:
    """The plan of a run in ``folder``."""
    (folder / "checkpoints").mkdir(exist_ok=True, parents=True)
    resolved = resolve(config or make_config(), environment, cores)
    path = str(checkpoint) if checkpoint else None
    return make_plan(resolved, environment, str(folder), path, None)


class Stage:
    """Everything a node needs to live in.

    Attributes:
        plan: The plan of the run.
        memory: Its shared memory.
        hub: The scheduler's end of the channel.
    """

    def __init__(
        self,
        folder: Path,
        config: RunConfig | None = None,
        *,
        checkpoint: Path | None = None,
        environment: EnvironmentSpec = CARTPOLE,
        own: tuple[Structure, ...] = (),
    ) -> None:
        plan = make_run_plan(folder, config, checkpoint=checkpoint, environment=environment)
        self.plan = replace(plan, own=own or plan.own)
        self.memory = RunMemory.create(self.plan)
        self.hub = InprocHub()

    def context(self, name: str, rank: int = 0) -> NodeContext:
        """A context of the node ``name``."""
        return NodeContext(
            name=name,
            rank=rank,
            plan=self.plan,
            memory=self.memory,
            channel=self.hub.connect(name),
            doorbell=self.memory.doorbell(name),
            stats=self.memory.stats(name),
            spans=self.memory.spans(name),
        )

    def events(self) -> list[Event]:
        """What nodes have sent since the last call."""
        return self.hub.receive()

    def close(self) -> None:
        self.memory.close()


def drain(node: Node) -> None:
    """Step a node until it has nothing to do."""
    for _ in range(10_000):
        if not node.step():
            return
    raise AssertionError(f"{node.context.name} always has something to do")


def order(shard: int, rollout_id: int = 1, *, version: int = 0, **changes: int) -> RolloutOrder:
    """An order into slot 0 of the shard's first incarnation."""
    made = RolloutOrder(
        shard=shard, incarnation=1, slot=0, rollout_id=rollout_id, ticket=0, min_version=version
    )
    return msgspec.structs.replace(made, **changes)


def ref(shard: int, rollout_id: int = 1) -> RolloutRef:
    """The rollout that `order` asks for."""
    return RolloutRef(shard=shard, incarnation=1, slot=0, rollout_id=rollout_id)
