"""One run's plan, memory and channel in this process, for nodes that are driven by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.config import EvaluationConfig, RunConfig
from fast_core.memory import Structure
from fast_core.messages import Assign, Evaluate, Evaluated, Message, RolloutOrder, RolloutRef
from fast_core.nodes.node import Node
from fast_core.run.plan import RunPlan
from fast_core.testing import stage
from fast_core.testing.node import SMALL
from fast_core.testing.stage import drain as drain
from tests.closing import until_the_end

N = TypeVar("N", bound=Node)
E = TypeVar("E", bound=Message)
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

    def start(self, kind: type[N], name: str, rank: int = 0) -> N:
        """A node that is ready, and closed when the test ends."""
        node = until_the_end(kind(self.context(name, rank)))
        node.setup()
        return node

    def assign(self, name: str = "env-0", *shards: int) -> None:
        """Give these shards to an env node, or both."""
        for shard in shards or (0, 1):
            self.hub.send(name, Assign(shard, 1))

    def sent(self, kind: type[E]) -> list[E]:
        """What nodes have sent of this kind since the last call of any."""
        return [event for event in self.events() if isinstance(event, kind)]

    def publish(self, version: int = 0, value: float = 0.0) -> None:
        """Let all weights be ``value``."""
        self.memory.weights().publish(version, self._filled(value).data)

    def weights(self) -> tuple[int, np.ndarray]:
        """The version of the newest weights, and the weights."""
        flat = self.memory.parameters.empty()
        return self.memory.weights().read_into(flat), flat

    def snapshot(self, version: int, value: float = 0.0) -> None:
        """Let the policy that is to be evaluated have these weights."""
        self.memory.evaluation().write(version, 10 * version, self._filled(value))

    def evaluate(self, node: Node, version: int, episodes: int = 3) -> Evaluated:
        """What the evaluator says of the policy that it is given."""
        self.hub.send("evaluator-0", Evaluate(version, version, 10 * version, episodes))
        drain(node)
        (event,) = self.sent(Evaluated)
        return event

    def _filled(self, value: float) -> np.ndarray:
        flat = self.memory.parameters.empty()
        flat.fill(value)
        return flat


def order(shard: int, rollout_id: int = 1, *, version: int = 0, **changes: int) -> RolloutOrder:
    """An order into slot 0 of the shard's first incarnation."""
    made = RolloutOrder(
        shard=shard, incarnation=1, slot=0, rollout_id=rollout_id, ticket=0, min_version=version
    )
    return msgspec.structs.replace(made, **changes)


def ref(shard: int, rollout_id: int = 1) -> RolloutRef:
    """The rollout that `order` asks for."""
    return RolloutRef(shard=shard, incarnation=1, slot=0, rollout_id=rollout_id)
