"""Which nodes a run has, and whether every message has somebody to consume it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fast_core.config import RunConfig
from fast_core.errors import ConfigError, TopologyError
from fast_core.launcher.ownership import check_declared, check_writers, own_structures
from fast_core.launcher.wiring import check_messages, node_class, users_nodes, wiring
from fast_core.memory import RolloutStore
from fast_core.messages import (
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
from fast_core.nodes.node import Node
from fast_core.run.names import Role
from fast_core.run.parts import roles_of
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures

SCHEDULER_CONSUMES: frozenset[type[Message]] = frozenset(
    {Ready, Restoring, RolloutReady, Trained, SnapshotTaken, Evaluated, Changed, Noted, Saved, Left}
)


def warm(role: Role, config: RunConfig) -> tuple[str, ...]:
    """What a node imports before it has its plan."""
    modules, optimizer = (role.node_class.partition(":")[0],), config.nodes.optimizer
    torch = config.algorithm.uses_torch(device=optimizer.device, compile=optimizer.compile)
    return ("torch", *modules) if role.kind == "optimizer" and torch else modules


def check_topology(config: RunConfig) -> None:
    """Check that the nodes of a run fit together; before any process exists.

    Raises:
        TopologyError: As `check`, and as `wiring` and `ownership` for the user's nodes.
    """
    roles = roles_of(config, 1, 1).values()  # policy nodes are no more than may come
    nodes = [node_class(path) for path in dict.fromkeys(r.node_class for r in roles if r.kind)]
    check(scheduler_emits(roles), nodes)
    extras = users_nodes(config)
    check_messages(extras)
    check_declared(extras, nodes)


def optional_nodes(config: RunConfig) -> frozenset[str]:
    """Names of the nodes that a run goes on without; `check_topology` comes first."""
    return frozenset(wiring(users_nodes(config)).optional)


def with_structures(plan: RunPlan) -> RunPlan:
    """The plan with the memory that the user's nodes add to it, all of it checked.

    Raises:
        TopologyError: As `fast_core.launcher.ownership`.
        ConfigError: One takes rollouts, and there are none.
    """
    extras = users_nodes(plan.config)
    own = tuple(own_structures(plan, extras))
    plan = replace(plan, own=own)
    table = tuple(structures(plan))
    stages = wiring(extras).stages
    if stages and all(row.kind is not RolloutStore for row in table):
        raise ConfigError(
            f"nodes.extra has {', '.join(stages)}, which takes rollouts (Transform); "
            f"algorithm.name {plan.config.algorithm.name!r} learns from replay, whose env nodes "
            "hand on no rollouts. Remove it, or wrap the environment instead."
        )
    check_writers(table, node_classes(plan), plan.names.extra)
    return plan


def node_classes(plan: RunPlan) -> dict[str, type[Node]]:
    """The class of each node that is there or may come."""
    return {name: node_class(plan.roles[name].node_class) for name in plan.names.possible}


def scheduler_emits(roles: Iterable[Role]) -> frozenset[type[Message]]:
    """Commands that the scheduler will send in a run of these nodes."""
    emits: set[type[Message]] = {Assign, Release, Collect, Train, Change, Save, Record, Finish}
    if any(role.kind == "evaluator" for role in roles):
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
