"""Which structures of a run must travel, because its nodes are on several hosts. Pure.

Each host has a memory of its own. What a node there reads and a node elsewhere writes is mirrored
there; everything else stays where it is, doorbells too, which each host has of all nodes and rings
for its own. A run on one host has no mirrors, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

from fast_core.errors import TopologyError
from fast_core.launcher.ownership import LAUNCHER_READS, readers_of, writers_of
from fast_core.memory import Doorbell, Mailbox, Structure, carrier_of
from fast_core.messages import Transform
from fast_core.nodes.node import Node
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures

HERE = ""  # the launcher's own host


def steward_of(place: str) -> str:
    """The name under which the steward of a host is known."""
    return f"steward@{place}"


def stewards_of(plan: RunPlan) -> dict[str, str]:
    """The hosts beside the launcher's, each by the name of its steward."""
    return {steward_of(place): place for place in sorted({*plan.places.values()})}


class Mirror(NamedTuple):
    """A structure that is written on one host and read on another.

    Attributes:
        row: The structure.
        source: The host of a node that may write it.
        target: That of a reader, who finds a mirror there.
    """

    row: Structure
    source: str
    target: str


def mirrors(plan: RunPlan, nodes: Mapping[str, type[Node]]) -> tuple[Mirror, ...]:
    """What travels, in the order of the run's table; ``nodes`` has the class of each node.

    Raises:
        TopologyError: Something would have to that can't; says which nodes belong together.
    """
    if not plan.places:
        return ()
    return tuple(mirror for row in structures(plan) for mirror in _of(row, plan, nodes))


def held_at(plan: RunPlan, nodes: Mapping[str, type[Node]], place: str) -> frozenset[str]:
    """What a host has of a run's memory: all that a node there writes or reads, and every bell."""
    own = {name for name, role in plan.roles.items() if role.place == place}
    return frozenset(
        row.name
        for row in structures(plan)
        if row.kind is Doorbell or own & (writers_of(row, nodes) | readers_of(row, nodes))
    )


def _of(row: Structure, plan: RunPlan, nodes: Mapping[str, type[Node]]) -> Iterator[Mirror]:
    writers, readers = writers_of(row, nodes), readers_of(row, nodes)
    sources, targets = ({plan.roles[name].place for name in names} for names in (writers, readers))
    if row.family in LAUNCHER_READS:
        targets.add(HERE)
    travels = [(source, target) for source in sorted(sources) for target in sorted(targets)]
    travels = [(source, target) for source, target in travels if source != target]
    if travels:
        _check(row, plan, nodes, writers, readers)
    yield from (Mirror(row, source, target) for source, target in travels)


def _check(
    row: Structure,
    plan: RunPlan,
    nodes: Mapping[str, type[Node]],
    writers: Set[str],
    readers: Set[str],
) -> None:
    """Refuse what can't travel.

    Raises:
        TopologyError: See `mirrors`.
    """
    stages = {name for name in writers if Transform in nodes[name].consumes}
    if row.kind is Mailbox:
        why = "they answer each other step by step, for which hosts are too far apart"
    elif carrier_of(row.kind) is None:
        why = f"nobody knows how a {row.kind.__name__} travels"
    elif not {plan.roles[name].place for name in stages} <= {HERE}:
        writers, why = stages, "what they change is read there at once"
    else:
        return
    hosts = {name: plan.roles[name].place or "the launcher" for name in sorted(writers)}
    named = ", ".join(f"{name} ({host})" for name, host in hosts.items())
    raise TopologyError(
        f"{row.name!r} is written by {named} and read by {', '.join(sorted(readers))}: {why}. Put "
        "these nodes on one host"
    )
