"""One run's plan, memory and channel in this process, for nodes that are driven by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import EvaluationConfig, RunConfig
from fast_core.memory import Structure
from fast_core.messages import RolloutOrder, RolloutRef
from fast_core.run.plan import RunPlan
from fast_core.testing import stage
from fast_core.testing.node import SMALL
from fast_core.testing.stage import drain as drain
from tests.closing import until_the_end

CARTPOLE = EnvironmentSpec(
    id="CartPole-v1",
    observation=SpaceSpec("box", (4,), "float32", low=(-5.0,) * 4, high=(5.0,) * 4),
    action=SpaceSpec("discrete", (), "int64", n=2),
    max_episode_steps=500,
)


def make_config(**changes: object) -> RunConfig:
    """A small CartPole run of 2 shards of 2 environments and 8 steps."""
    own = {"name": "toy", "evaluation": EvaluationConfig(episodes=3, envs=2)}
    return msgspec.structs.replace(SMALL, **(own | changes))


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
    return stage.make_run_plan(
        folder, config or make_config(), environment, checkpoint=checkpoint, cores=cores
    )


class Stage(stage.Stage):
    """Everything a node needs to live in, in ``folder``, until the test ends."""

    def __init__(
        self,
        folder: Path,
        config: RunConfig | None = None,
        *,
        checkpoint: Path | None = None,
        environment: EnvironmentSpec = CARTPOLE,
        own: tuple[Structure, ...] = (),
    ) -> None:
        super().__init__(
            make_run_plan(folder, config, checkpoint=checkpoint, environment=environment), own
        )
        until_the_end(self)


def order(shard: int, rollout_id: int = 1, *, version: int = 0, **changes: int) -> RolloutOrder:
    """An order into slot 0 of the shard's first incarnation."""
    made = RolloutOrder(
        shard=shard, incarnation=1, slot=0, rollout_id=rollout_id, ticket=0, min_version=version
    )
    return msgspec.structs.replace(made, **changes)


def ref(shard: int, rollout_id: int = 1) -> RolloutRef:
    """The rollout that `order` asks for."""
    return RolloutRef(shard=shard, incarnation=1, slot=0, rollout_id=rollout_id)
