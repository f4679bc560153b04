"""Which nodes a run has, and whether every message has somebody to consume it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fast_core.config import RunConfig
from fast_core.errors import TopologyError
from fast_core.events import (
    Assign,
    Change,
    Changed,
    Collect,
    Evaluate,
    Evaluated,
    Finish,
    Left,
    Message,
    Noted,
    Ready,
    Record,
    Release,
    Restoring,
    RolloutReady,
    Save,
    Saved,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.launcher.ownership import check_declared, check_writers, own_structures
from fast_core.launcher.wiring import check_messages, extra_nodes, node_class, wiring
from fast_core.nodes.node import Node
from fast_core.run.names import Names
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures

SCHEDULER_CONSUMES: frozenset[type[Message]] = frozenset(
    {Ready, Restoring, RolloutReady, Trained, SnapshotTaken, Evaluated, Changed, Noted, Saved, Left}
)


@dataclass(frozen=True)
class NodeSpec:
    """One node of the topology.

    Attributes:
        name: Unique name.
        node_class: ``package.module:Class``.
        rank: Index among the nodes of its kind.
    """

    name: str
    node_class: str
    rank: int


NODE_CLASSES = {
    "env": "fast_core.nodes.collect.env:EnvNode",
    "policy": "fast_core.nodes.act.policy:PolicyNode",
    "optimizer": "fast_core.nodes.learn.optimizer:OptimizerNode",
    "evaluator": "fast_core.nodes.act.evaluator:EvaluatorNode",
    "metrics": "fast_core.nodes.metrics:MetricsNode",
}
# What differs, and comes on top, where the algorithm learns from replay.
REPLAY_CLASSES = {
    "replay": "fast_core.nodes.replay.node:ReplayNode",
    "optimizer": "fast_core.nodes.learn.replay_optimizer:ReplayOptimizerNode",
}


def topology(plan: RunPlan) -> tuple[NodeSpec, ...]:
    """The nodes of a run, in the order of ``plan.names.all``."""
    extras = {extra.node_name: extra.node for extra in plan.config.added_nodes}
    classes = role_classes(plan.config)
    specs = []
    for name in plan.names.all:
        if name in extras:
            specs.append(NodeSpec(name, extras[name], 0))
        else:
            specs.append(_spec(name, classes))
    return tuple(specs)


def spare_specs(plan: RunPlan) -> tuple[NodeSpec, ...]:
    """The nodes that may be added while a run goes on."""
    classes = role_classes(plan.config)
    return tuple(_spec(name, classes) for name in plan.names.absent)


def _spec(name: str, classes: Mapping[str, str]) -> NodeSpec:
    role, _, rank = name.partition("-")
    return NodeSpec(name, classes[role], int(rank))


def role_classes(config: RunConfig) -> dict[str, str]:
    """The class of each role that a run has."""
    classes = dict(NODE_CLASSES)
    if config.replays:
        classes |= REPLAY_CLASSES
    if config.evaluation.every_env_steps is None:
        del classes["evaluator"]
    return classes


def warm(name: str, config: RunConfig) -> tuple[str, ...]:
    """What the node ``name`` imports before it has its plan."""
    extras = {extra.node_name: extra.node for extra in config.added_nodes}
    path = extras[name] if name in extras else role_classes(config)[name.partition("-")[0]]
    modules, optimizer = (path.partition(":")[0],), config.nodes.optimizer
    torch = config.algorithm.uses_torch(device=optimizer.device, compile=optimizer.compile)
    return ("torch", *modules) if name in Names.of(config, 0, 0).optimizers and torch else modules


def check_topology(config: RunConfig) -> None:
    """Check that the nodes of a run fit together; before any process exists.

    Raises:
        TopologyError: As `check`, and as `wiring` and `ownership` for the user's nodes.
    """
    evaluates = config.evaluation.every_env_steps is not None
    nodes = [node_class(path) for path in role_classes(config).values()]
    check(scheduler_emits(evaluates=evaluates), nodes)
    extras = extra_nodes(config.added_nodes)
    check_messages(extras)
    check_declared(extras, nodes)


def optional_nodes(config: RunConfig) -> frozenset[str]:
    """Names of the nodes that a run goes on without; `check_topology` comes first."""
    return frozenset(wiring(extra_nodes(config.added_nodes)).optional)


def with_structures(plan: RunPlan) -> RunPlan:
    """The plan with the memory that the user's nodes add to it, all of it checked.

    Raises:
        TopologyError: As `fast_core.launcher.ownership`.
    """
    own = tuple(own_structures(plan, extra_nodes(plan.config.added_nodes)))
    plan = replace(plan, own=own)
    specs = (*topology(plan), *spare_specs(plan))
    nodes = {spec.name: node_class(spec.node_class) for spec in specs}
    check_writers(tuple(structures(plan)), nodes, plan.names.extra)
    return plan


def scheduler_emits(*, evaluates: bool) -> frozenset[type[Message]]:
    """Commands that the scheduler will send in a run."""
    emits: set[type[Message]] = {Assign, Release, Collect, Train, Change, Save, Record, Finish}
    if evaluates:
        emits |= {Snapshot, Evaluate}
    return frozenset(emits)


def check(emits: frozenset[type[Message]], nodes: Sequence[type[Node]]) -> None:
    """Check that every message has a consumer before any process exists.

    Args:
        emits: What the scheduler sends.
        nodes: The classes of all nodes.

    Raises:
        TopologyError: Names the message, who sends it and what would consume it.
    """
    consumed = frozenset[type[Message]]().union(*(node.consumes for node in nodes))
    for message in sorted(emits - consumed, key=lambda kind: kind.__name__):
        raise TopologyError(
            f"the scheduler sends {message.__name__}, but no node consumes it; nodes: "
            f"{sorted({node.__name__ for node in nodes})}. Add {message.__name__} to the "
            "`consumes` of the node that should handle it."
        )
    for node in nodes:
        for message in sorted(node.emits - SCHEDULER_CONSUMES, key=lambda kind: kind.__name__):
            raise TopologyError(
                f"{node.__name__} emits {message.__name__}, but the scheduler does not consume "
                f"it; it takes {sorted(kind.__name__ for kind in SCHEDULER_CONSUMES)}."
            )
