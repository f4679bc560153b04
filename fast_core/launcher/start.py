"""What a forked child is given to start with."""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.config import EnvironmentConfig
from fast_core.run.plan import RunPlan


@dataclass(frozen=True)
class ProbeStart:
    """For the probe: which environment to look at."""

    environment: EnvironmentConfig
    seed: int


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
class NodeStart:
    """For a node.

    Attributes:
        plan: The plan of the run.
        node_class: ``package.module:Class`` of the node.
        rank: Index among the nodes of its kind.
        socket_path: Socket file of the scheduler.
    """

    plan: RunPlan
    node_class: str
    rank: int
    socket_path: str
