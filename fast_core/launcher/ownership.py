"""Whether every structure of shared memory has its one writer, and somebody who reads it.

As for messages, a node's class declares what it takes part in, and the launcher compares that with
the run's table before anything starts. Pure but for asking the user's nodes what they add.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from difflib import get_close_matches

from fast_core.errors import SegmentError, TopologyError
from fast_core.launcher.wiring import ExtraNode
from fast_core.memory import (
    ACTOR,
    ANYONE,
    EXECUTOR,
    STAGES,
    Doorbell,
    EvaluationSlot,
    Ring,
    Structure,
)
from fast_core.messages import Assign, Message, Serve, Transform
from fast_core.nodes.node import Node
from fast_core.run.own_parts import OwnPart
from fast_core.run.plan import RunPlan
from fast_core.run.structures import GIVEN, structures, watching
from fast_core.run.watching import WATCHING
from fast_core.system.text import error_text

Nodes = Mapping[str, type[Node]]

# Who writes because of a command: the nodes that consume it.
_HANDED: dict[str, type[Message]] = {EXECUTOR: Assign, ACTOR: Serve, STAGES: Transform}
LAUNCHER_READS = {"pulse", "spans", "stats", "progress", "works"}
_ONE_READER = (Ring, EvaluationSlot)  # the reader has a word of its own in these
_NAME = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_.-]+)?")


def writers_of(row: Structure, nodes: Nodes) -> set[str]:
    """The nodes that may write a structure: one at a time, if they are several."""
    handed = {_HANDED[who] for who in (row.writer, *row.lent) if who in _HANDED}
    named = {row.writer, *row.lent} & nodes.keys()
    return named | {name for name, kind in nodes.items() if not handed.isdisjoint(kind.consumes)}


def readers_of(row: Structure, nodes: Nodes) -> set[str]:
    """The nodes that say that they read it."""
    names = {row.family, row.name}
    return {name for name, kind in nodes.items() if not names.isdisjoint(kind.reads)}


def check_declared(extras: Sequence[ExtraNode], own: Sequence[type[Node]]) -> None:
    """Check what can be known without an environment: that names match.

    Args:
        extras: The user's nodes.
        own: FastLoop's.

    Raises:
        TopologyError: Names the node, the structure and what to write.
    """
    ours = GIVEN.union(*(kind.writes for kind in own))
    written = ours.union(*(extra.kind.writes for extra in extras))
    read = frozenset[str]().union(
        *(extra.kind.reads for extra in extras), *(kind.reads for kind in own)
    )
    for extra in extras:
        for name in sorted(extra.kind.reads - written):
            near = get_close_matches(name, sorted(written), 1)
            raise TopologyError(
                f"{_who(extra)} reads {name!r}, but no node writes it. "
                + (f"Did you mean {near[0]!r}? Else add" if near else "Add")
                + " it to the `writes` of the node that yields it in structures(), and that node "
                "to nodes.extra"
            )
    for extra in extras:
        for name in sorted(extra.kind.writes - ours - read):
            raise TopologyError(
                f"{_who(extra)} writes {name!r}, but no node reads it. Add it to the `reads` of "
                "the node that takes it, and that node to nodes.extra"
            )


def own_structures(plan: RunPlan, extras: Sequence[ExtraNode]) -> Iterator[Structure]:
    """What the user's nodes and parts add to the table.

    Raises:
        TopologyError: One of them failed, or yields what is no structure.
    """
    ours = {row.family for row in structures(plan)}
    for extra in extras:
        try:
            rows = tuple(extra.kind.structures(plan, extra.name))
        except BaseException as error:  # a user's code may raise anything
            raise TopologyError(
                f"{_who(extra)}: structures() raised {error_text(error)}"
            ) from error
        yield from _checked(plan, rows, ours, _who(extra), extra.name)
    for part in plan.parts:
        if isinstance(part, OwnPart):
            first = next((role.name for role in part.brought), "")
            yield from _checked(plan, part.rows(plan), ours, f"{part.at} ({part.key})", first)


def _checked(
    plan: RunPlan, rows: Sequence[Structure], ours: Set[str], who: str, writer: str
) -> Iterator[Structure]:
    """What one adds; ``writer`` writes what has no other."""
    for row in rows:
        if type(row) is not Structure or not _NAME.fullmatch(row.name):
            raise TopologyError(
                f"{who}: structures() must yield fast_core.memory.Structure with a "
                f"name of letters, digits and '_', and at most one '/'; got {row!r}"
            )
        if row.family in ours:
            raise TopologyError(
                f"{who}: structures() yields {row.name!r}, which is FastLoop's own. "
                "Name it otherwise"
            )
        try:
            row.kind.nbytes(*row.shape)
        except (SegmentError, TypeError, ValueError, AttributeError) as error:
            raise TopologyError(
                f"{who}: structures() yields {row.name!r} as {row.kind!r} of the shape "
                f"{row.shape!r}, which has no size: {error}"
            ) from error
        if row.family == WATCHING:
            _check_watching(plan, who, row)
        yield row._replace(writer=row.writer or writer)


def _check_watching(plan: RunPlan, who: str, row: Structure) -> None:
    if (row.kind, row.shape) != watching(plan)[1:3]:
        raise TopologyError(
            f"{who}: structures() yields {row.name!r} as a {row.kind.__name__} of the "
            f"shape {row.shape!r}. Yield watching(plan) of fast_core.run.structures"
        )


def check_writers(table: Sequence[Structure], nodes: Nodes, extras: Sequence[str]) -> None:
    """Check the table of a run against what its nodes declare; ``extras`` names the user's.

    Raises:
        TopologyError: A structure without its one writer, or without a reader; says who lacks what.
    """
    first = {kind: name for name, kind in reversed([*nodes.items()])}  # one node of each class
    handed = {who: [k for k in first if command in k.consumes] for who, command in _HANDED.items()}
    readers: dict[str, list[str]] = {name: ["the launcher"] for name in LAUNCHER_READS}
    for name, kind in nodes.items():
        for declared in kind.reads:
            readers.setdefault(declared, []).append(name)
    seen: dict[str, str] = {}
    written: dict[str, set[type[Node]]] = {}  # the classes of who writes it, by name and family
    for row in table:
        if row.name in seen:
            raise TopologyError(
                f"two structures are named {row.name!r}, of {seen[row.name]} and {row.writer}. "
                f'Name it after its node: f"{row.family}/{{name}}"'
            )
        seen[row.name] = row.writer
        if row.writer == ANYONE and row.kind is Doorbell:
            continue
        holders = {kind for who in (row.writer, *row.lent) for kind in handed.get(who, [])}
        holders |= {nodes[who] for who in (row.writer, *row.lent) if who in nodes}
        _check_writer(row, holders, nodes, first)
        names = {row.family, row.name}
        _check_readers(row, [reader for name in names for reader in readers.get(name, ())])
        for name in names:
            written.setdefault(name, set()).update(holders)
    for kind, name in first.items():
        for declared in sorted(kind.writes):
            if declared not in written and name in extras:
                raise TopologyError(
                    f"{name} ({kind.__name__}) writes {declared!r}, but there is no such structure "
                    "in this run. Yield it in structures() of the class"
                )
            # FastLoop's own share a family, of which not every one has a part in each run.
            if name in extras and kind not in written.get(declared, {kind}):
                writers = sorted(f"{first[k]} ({k.__name__})" for k in written[declared])
                raise TopologyError(
                    f"{name} ({kind.__name__}) writes {declared!r}, but {' or '.join(writers)} "
                    f"does, and a structure has one writer. Take {declared!r} out of its `writes`, "
                    "and yield one of its own in structures()"
                )


def _check_writer(
    row: Structure, holders: Set[type[Node]], nodes: Nodes, first: Mapping[type[Node], str]
) -> None:
    if row.writer not in _HANDED and row.writer not in nodes:
        raise TopologyError(
            f"the writer of {row.name!r} is {row.writer!r}, and there is no such node; nodes: "
            f"{', '.join(nodes)}"
        )
    for kind in holders:
        if {row.family, row.name}.isdisjoint(kind.writes | GIVEN):
            raise TopologyError(
                f"{first[kind]} ({kind.__name__}) is the writer of {row.name!r}, but does not say "
                f"so. Add {row.family!r} to the `writes` of {kind.__name__}"
            )


def _check_readers(row: Structure, readers: Sequence[str]) -> None:
    if not readers:
        raise TopologyError(
            f"nobody reads {row.name!r}, which {row.writer} writes. Add {row.family!r} to the "
            "`reads` of the node that takes it"
        )
    if len(readers) > 1 and issubclass(row.kind, _ONE_READER):
        raise TopologyError(
            f"{' and '.join(readers)} read {row.name!r}, but a {row.kind.__name__} has one reader. "
            "Yield one for each of them in structures()"
        )


def _who(extra: ExtraNode) -> str:
    return f"{extra.key} ({extra.kind.__name__})"
