"""More env nodes, or fewer, in a running run: what is asked for, and how it comes about.

And shards that move between those that there are, by their loads.
"""

from __future__ import annotations

from fast_core.events import (
    Failed,
    NodeExited,
    Release,
    Respawn,
    Retire,
    Scaled,
    ScaleRequested,
)
from fast_core.scheduler.checkpointing import Cut
from fast_core.scheduler.failures import describe
from fast_core.scheduler.run import LAUNCHER, Run


def scale(run: Run, event: ScaleRequested) -> None:
    """Begin to do what is asked for, or say why not."""
    crew, before = run.crew, len(run.crew.members)
    wanted = before + event.count if event.relative else event.count
    if refusal := _refusal(run, event.kind, wanted):
        run.send(LAUNCHER, Scaled(event.number, "", refusal))
        return
    if wanted == before:
        run.send(LAUNCHER, Scaled(event.number, f"it has {_count(before)} already"))
        return
    run.decide("scale", f"from {_count(before)} to {wanted}")
    crew.asked = event.number
    if wanted > before:
        for node, lived in crew.hire(wanted - before):
            life = run.restarts.renew(node) if lived else 1
            run.send(LAUNCHER, Respawn(node, life, (), run.changes.values))
    else:
        crew.dismiss(before - wanted)
        crew.plan(run.ledger.held)


def _refusal(run: Run, kind: str, wanted: int) -> str:
    """Why it can't be, empty if it can."""
    shards, now = run.settings.shards, len(run.crew.members)
    if run.began_s is None:
        return "it is still starting; try again when it trains"
    if run.ending is not None:
        return f"it is about to end: {run.ending.text}"
    if kind != "env":
        return (
            f"the number of {kind} nodes can't change while it runs, only that of env nodes can "
            f"(env=1 to env={shards}). End it with `fastloop stop` and resume it with "
            f"nodes.{kind}.count=N"
        )
    if run.settings.spare_nodes is None:
        return (
            "its nodes share one process (mode inline), its schedule is recorded, to be run again "
            "in one (diagnostics.schedule), or each env node can have one environment only, so "
            "their number can't change. End a recorded run with `fastloop stop` and resume it with "
            "nodes.env.count=N"
        )
    if run.crew.changing:
        return "it is still changing the number of its env nodes; try again in a moment"
    if not 1 <= wanted <= shards:
        return (
            f"it can have from 1 to {_count(shards)}, as it has {shards} shards (rollout.shards) "
            f"and each is executed by one; it has {now}, and {wanted} were asked for"
        )
    return ""


def join(run: Run, node: str) -> None:
    """A node that was asked for is ready."""
    run.crew.join(node)
    run.decide("node added", f"{node} is ready")
    if not run.crew.joining:
        run.crew.plan(run.ledger.held)


def give_up(run: Run, event: Failed | NodeExited) -> None:
    """A node that was asked for can't be; the run goes on as it was."""
    crew = run.crew
    crew.give_up(event.node)
    if isinstance(event, NodeExited) and event.reaped:
        crew.retired.discard(event.node)
    text = f"{event.node} can't be started: {describe(event).text}"
    run.decide("scale failed", text)
    if crew.asked:
        number, crew.asked = crew.asked, 0
        error = f"{text}; it goes on with {_count(len(crew.members))}"
        run.send(LAUNCHER, Scaled(number, "", error))
    if not crew.joining:
        crew.plan(run.ledger.held)


def balance(run: Run) -> None:
    """Let shards move from nodes with most to do, if that pays; once a ticket at most."""
    crew = run.crew
    if run.loads is None or run.ending is not None or crew.changing or run.restarts.away:
        return
    for shard, node, why in run.loads.proposals(run.ledger.held, crew.members):
        crew.moves[shard] = node
        run.decide("balance", why)


def move(run: Run) -> None:
    """Move shards that rest, and retire who has none left; costs O(1) when there is nothing.

    Not while nodes save or change values: every node must know its shards then. A node gets what
    was sent before in order, so the one that lets go of a shard writes nothing of it any more.
    """
    crew, ledger = run.crew, run.ledger
    if (
        not (crew.moves or crew.leaving or crew.asked)
        or run.changes.holds
        or run.checkpoints.cut is Cut.SAVING
    ):
        return
    for shard, node in list(crew.moves.items()):
        source = ledger.owners[shard]
        if not source or node in run.restarts.away or not ledger.rests(shard):
            continue
        del crew.moves[shard]
        run.send(source, Release(shard))
        run.send(node, ledger.move(shard, node))
        if run.loads is not None:
            run.loads.moved(node)
    for node in sorted(crew.leaving - run.restarts.away):
        if not ledger.held.get(node):
            crew.retire(node)
            run.times.bury(node)
            run.send(LAUNCHER, Retire(node))
    settle(run)


def gone(run: Run, node: str) -> None:
    """A node that was told to stop has."""
    run.crew.retired.discard(node)
    run.decide("node retired", f"{node} has stopped")
    settle(run)


def settle(run: Run) -> None:
    """Say that everything has come about."""
    if run.crew.asked and not run.crew.changing:
        number, run.crew.asked = run.crew.asked, 0
        run.send(LAUNCHER, Scaled(number, f"it has {_count(len(run.crew.members))}"))


def _count(nodes: int) -> str:
    return f"{nodes} env node{'s' * (nodes != 1)}"
