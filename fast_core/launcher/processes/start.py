"""What a forked child is given to start with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fast_core.config import AlgorithmConfig, EnvironmentConfig, OptimizerNodeConfig, RunConfig
from fast_core.config.changes import evaluated
from fast_core.messages import Assign
from fast_core.run.parts import names_of
from fast_core.run.plan import RunPlan


@dataclass(frozen=True)
class ProbeStart:
    """For the probe.

    Attributes:
        environment: What to look at.
        seed: Seed of the run.
        number: Its `Place.number`.
        optimizer: Whose device to try.
        policy_device: Where policies act.
        algorithm: Whose modules to look at.
        others: Where policies are evaluated too, by name.
        filmed: Whether evaluations are.
    """

    environment: EnvironmentConfig
    seed: int
    number: int
    optimizer: OptimizerNodeConfig
    policy_device: str
    algorithm: AlgorithmConfig
    others: Mapping[str, EnvironmentConfig] = field(default_factory=dict)
    filmed: bool = False


def probe_start(config: RunConfig) -> ProbeStart:
    """What is to be looked at before a run."""
    nodes = config.nodes
    device = "cpu" if config.policy.placement == "env" else nodes.policy.device
    evaluation, evaluates = config.evaluation, bool(names_of(config).evaluator)
    names = evaluation.environments if evaluates else ()
    return ProbeStart(
        environment=config.environment,
        seed=config.seed,
        number=config.numbers.probe,
        others={name: evaluated(config, name, {}) for name in names},
        filmed=evaluates and evaluation.video_every is not None,
        optimizer=nodes.optimizer,
        policy_device=device,
        algorithm=config.algorithm,
    )


@dataclass(frozen=True)
class MeasureStart:
    """For the two that measure for ``policy.placement: auto``.

    Attributes:
        plan: A plan with one shard and one node of each kind.
        node: Which node's place in memory it takes.
    """

    plan: RunPlan
    node: str


@dataclass(frozen=True)
class StewardStart:
    """For the steward of another host.

    Attributes:
        plan: The plan of the run.
        place: The host.
        socket_path: Socket file of the scheduler.
    """

    plan: RunPlan
    place: str
    socket_path: str


@dataclass(frozen=True)
class NodeStart:
    """For a node.

    Attributes:
        plan: The plan of the run.
        socket_path: Socket file of the scheduler.
        peer: What it calls itself there.
        life: The number of its life, 2 for the first that is not the one it began with.
        shards: What it executes, if it is an env node that comes back.
    """

    plan: RunPlan
    socket_path: str
    peer: str = ""
    life: int = 1
    shards: tuple[Assign, ...] = ()
