"""More env or policy nodes, or fewer, in a running run: what is asked for, and how it comes about.

And shards that move between those that there are, by their loads.
"""

from __future__ import annotations

from fast_core.messages import Failed, NodeExited, Release
from fast_core.messages.launching import Respawn, Retire, Scaled, ScaleRequested
from fast_core.scheduler.checkpointing import Cut
from fast_core.scheduler.crew import Crew
from fast_core.scheduler.failures import describe
from fast_core.scheduler.life import LAUNCHER, Life


def scale(run: Life, event: ScaleRequested) -> None:
    """Begin to do what is asked for, or say why not."""
    if refusal := _never(run, event.kind):
        run.send(LAUNCHER, Scaled(event.number, "", refusal))
        return
    kind = event.kind
    crew = run.crew if kind == "env" else run.acting.crew
    before = len(crew.members)
    wanted = before + event.count if event.relative else event.count
    if refusal := _not_now(run, crew, wanted):
        run.send(LAUNCHER, Scaled(event.number, "", refusal))
        return
    if wanted == before:
        run.send(LAUNCHER, Scaled(event.number, f"it has {_count(before, kind)} already"))
        return
    run.decide("scale", f"from {_count(before, kind)} to {wanted}")
    crew.asked = event.number
    if wanted > before:
        for node, lived in crew.hire(wanted - before):
            life = run.restarts.renew(node) if lived else 1
            run.send(LAUNCHER, Respawn(node, life, (), run.changes.values))
    else:
        crew.dismiss(before - wanted)
        crew.plan()


def _never(run: Life, kind: str) -> str:
    """Why nodes of this kind can't come or go in this run, empty if they can."""
    shards, settings = len(run.ledger.owners), run.settings
    if run.began_s is None:
        return "it is still starting; try again when it trains"
    if run.ending is not None:
        return f"it is about to end: {run.ending.text}"
    if kind == "policy" and not settings.policy_nodes:
        return (
            "its policies act in the env nodes (policy.placement: env), so it has no policy nodes; "
            f"the number of those can change (env=1 to env={shards}). End it with `fastloop stop` "
            "and resume it with policy.placement=node"
        )
    if kind not in ("env", "policy"):
        kinds = "env nodes can" if not settings.policy_nodes else "env and policy nodes can"
        return (
            f"the number of {kind} nodes can't change while it runs, only that of {kinds} "
            f"(env=1 to env={shards}). End it with `fastloop stop` and resume it with "
            f"nodes.{kind}.count=N"
        )
    if kind == "env" and settings.spare_nodes is None:
        return (
            "its nodes share one process (mode inline), its schedule is recorded, to be run again "
            "in one (diagnostics.schedule), or each env node can have one environment only, so "
            "their number can't change. End a recorded run with `fastloop stop` and resume it with "
            "nodes.env.count=N"
        )
    if kind == "policy" and settings.spare_policies is None:
        return (
            "its nodes share one process (mode inline), or its schedule is recorded, to be run "
            "again in one (diagnostics.schedule), so their number can't change. End a recorded run "
            "with `fastloop stop` and resume it with nodes.policy.count=N"
        )
    return ""


def _not_now(run: Life, crew: Crew, wanted: int) -> str:
    """Why it can't be now, or so many, empty if it can."""
    shards, now, kind = len(run.ledger.owners), len(crew.members), crew.kind
    if crew.changing:
        return f"it is still changing the number of its {kind} nodes; try again in a moment"
    if not 1 <= wanted <= shards:
        does = "is executed" if kind == "env" else "is acted for"
        return (
            f"it can have from 1 to {_count(shards, kind)}, as it has {shards} shards "
            f"(rollout.shards) and each {does} by one; it has {now}, and {wanted} were asked for"
        )
    return ""


def join(run: Life, node: str) -> None:
    """A node that was asked for is ready."""
    crew = run.crew_of(node)
    crew.join(node)
    run.decide("node added", f"{node} is ready")
    if not crew.joining:
        crew.plan()


def give_up(run: Life, event: Failed | NodeExited) -> None:
    """A node that was asked for can't be; the run goes on as it was."""
    crew = run.crew_of(event.node)
    crew.give_up(event.node)
    if isinstance(event, NodeExited) and event.reaped:
        crew.retired.discard(event.node)
    text = f"{event.node} can't be started: {describe(event).text}"
    run.decide("scale failed", text)
    if crew.asked:
        number, crew.asked = crew.asked, 0
        error = f"{text}; it goes on with {_count(len(crew.members), crew.kind)}"
        run.send(LAUNCHER, Scaled(number, "", error))
    if not crew.joining:
        crew.plan()


def balance(run: Life) -> None:
    """Let shards move from nodes with most to do, if that pays; once a ticket at most."""
    for crew, loads in ((run.crew, run.loads), (run.acting.crew, run.acting.loads)):
        if loads is None or run.ending is not None or crew.changing or run.restarts.away:
            continue
        for shard, node, why in loads.proposals(crew.held, crew.members):
            crew.moves[shard] = node
            run.decide("balance", why)


def move(run: Life) -> None:
    """Move shards that rest, and retire who has none left; costs O(1) when there is nothing."""
    _move_actors(run)
    _move_executors(run)


def _move_executors(run: Life) -> None:
    """Let shards go to other env nodes.

    Not while nodes save or change values: every node must know its shards then. The one that lets
    go of a shard has begun it and collects nothing, so it writes nothing of it any more.
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
        if not source or node in run.restarts.away or not ledger.may_move(shard):
            continue
        del crew.moves[shard]
        run.send(source, Release(shard))
        run.send(node, ledger.move(shard, node))
        if run.loads is not None:
            run.loads.moved(node)
    _retire(run, crew)


def _move_actors(run: Life) -> None:
    """Let other policy nodes act for shards; those hold no part of a checkpoint or a change."""
    acting, crew = run.acting, run.acting.crew
    if not (crew.moves or crew.leaving or crew.asked):
        return
    for shard in list(crew.moves):
        if not acting.may_begin(shard, run.restarts.away):
            continue
        source, leave = acting.begin(shard)
        if source in run.restarts.away:
            hand_over(run, shard)
        else:
            run.send(source, leave)
    _retire(run, crew)


def hand_over(run: Life, shard: int) -> None:
    """The policy node that acted for a shard does no more: another one does."""
    node, serve = run.acting.move(shard)
    if node not in run.restarts.away:  # else it is told when it is back
        run.send(node, serve)
    _retire(run, run.acting.crew)


def _retire(run: Life, crew: Crew) -> None:
    """Let those go that have nothing left."""
    for node in sorted(crew.leaving - run.restarts.away):
        if not crew.held.get(node):
            crew.retire(node)
            for flow in run.flows:
                flow.times.bury(node)
            run.send(LAUNCHER, Retire(node))
    settle(run, crew)


def gone(run: Life, node: str) -> None:
    """A node that was told to stop has."""
    crew = run.crew_of(node)
    crew.retired.discard(node)
    run.decide("node retired", f"{node} has stopped")
    settle(run, crew)


def settle(run: Life, crew: Crew) -> None:
    """Say that everything has come about."""
    if crew.asked and not crew.changing:
        number, crew.asked = crew.asked, 0
        text = f"it has {_count(len(crew.members), crew.kind)}"
        run.send(LAUNCHER, Scaled(number, text))


def _count(nodes: int, kind: str) -> str:
    return f"{nodes} {kind} node{'s' * (nodes != 1)}"
