"""Which nodes a run has, and whether every message has somebody to consume it. Pure."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from fast_core.errors import TopologyError
from fast_core.events import (
    Assign,
    Collect,
    Evaluate,
    Evaluated,
    Message,
    Ready,
    Record,
    RolloutReady,
    Save,
    Saved,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.node import Node
from fast_core.plan import RunPlan

SCHEDULER_CONSUMES: frozenset[type[Message]] = frozenset(
    {Ready, RolloutReady, Trained, SnapshotTaken, Evaluated, Saved}
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
    "env": "fast_core.nodes.env:EnvNode",
    "optimizer": "fast_core.nodes.optimizer:OptimizerNode",
    "evaluator": "fast_core.nodes.evaluator:EvaluatorNode",
    "metrics": "fast_core.nodes.metrics:MetricsNode",
}


def topology(plan: RunPlan) -> tuple[NodeSpec, ...]:
    """The nodes of a run, in the order of ``plan.node_names``."""
    specs = []
    for name in plan.node_names:
        role, _, rank = name.partition("-")
        specs.append(NodeSpec(name, NODE_CLASSES[role], int(rank)))
    return tuple(specs)


def warm_module(role: str) -> str:
    """What a node of this role imports before it has its plan."""
    return NODE_CLASSES[role].partition(":")[0]


def check_topology(*, evaluates: bool) -> None:
    """Check that the nodes of a run fit together; before any process exists.

    Raises:
        TopologyError: As `check` and `node_class`.
    """
    roles = [role for role in NODE_CLASSES if evaluates or role != "evaluator"]
    check(scheduler_emits(evaluates=evaluates), [node_class(NODE_CLASSES[role]) for role in roles])


def scheduler_emits(*, evaluates: bool) -> frozenset[type[Message]]:
    """Commands that the scheduler will send in a run."""
    emits: set[type[Message]] = {Assign, Collect, Train, Save, Record}
    if evaluates:
        emits |= {Snapshot, Evaluate}
    return frozenset(emits)


def node_class(path: str) -> type[Node]:
    """Import a node class.

    Raises:
        TopologyError: There is no such class, or it is no `Node`.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise TopologyError(f"can't import the node class {path!r}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Node)):
        raise TopologyError(f"{path!r} is not a subclass of fast_core.node.Node; got {found!r}")
    return found


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
