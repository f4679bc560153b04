"""The table of a run's shared memory: every structure, once, with who writes it.

Every node has some, and each part of a run brings those of a function below. Layout, creation,
attaching and the check of the writers all follow from it; every process computes the same table
from the plan. docs/memory.md says what each structure holds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import FieldSpec
from fast_core.memory import (
    ACTOR,
    ANYONE,
    EXECUTOR,
    STAGES,
    STATS_WORDS,
    Doorbell,
    EvaluationSlot,
    KeptPriorities,
    Mailbox,
    ReplayLog,
    Ring,
    RolloutStore,
    SideColumns,
    Structure,
    Trace,
    WeightBoard,
    reserve_of,
)
from fast_core.run import mail
from fast_core.run.columns import (
    Fields,
    batch_fields,
    carried_fields,
    later_columns,
    replay_columns,
    reply_fields,
    request_fields,
    result_fields,
    rollout_fields,
)
from fast_core.run.frame import FrameLayout
from fast_core.run.names import EVALUATOR, OPTIMIZER, REPLAY
from fast_core.run.plan import RunPlan
from fast_core.run.tiles import tiles
from fast_core.run.watching import WATCHING, watching_words
from fast_core.system.progress import progress_words

SPAN = struct.Struct("<3q")  # state, start and end on the monotonic clock in ns
INSIGHTS = "insights"  # family of the boards that viewers yield and the first optimizer writes
SPANS_KEPT = 4096
SPARE_SPANS_KEPT = 256  # of a node that may never come
STATES = 16  # room for as many as a node can be in
# Families that every node has without declaring them: all doorbells, and of its own its trace,
# counters, pulse and works.
GIVEN = frozenset({"doorbell", "pulse", "spans", "stats", "works"})


def structures(plan: RunPlan) -> Iterator[Structure]:
    """Every structure of a run that this host has, in the order of their places."""
    yield from (row for row in _all(plan) if plan.held is None or row.name in plan.held)


def _all(plan: RunPlan) -> Iterator[Structure]:
    yield from _of_nodes(plan)
    for part in plan.parts:
        yield from part.structures(plan)
    yield from plan.own


def _of_nodes(plan: RunPlan) -> Iterator[Structure]:
    """What every node has, whatever it is for."""
    possible, absent = plan.names.possible, frozenset(plan.names.absent)
    for name in possible:
        late = "at most 0.2 s of delay, if a ringer dies before its wake call"
        yield Structure(f"doorbell/{name}", Doorbell, (), ANYONE, late)
        kept = SPARE_SPANS_KEPT if name in absent else SPANS_KEPT
        yield Structure(f"spans/{name}", Ring, (kept, SPAN.size), name, "published spans")
    for name in possible:
        yield Structure(f"stats/{name}", Trace, (STATS_WORDS,), name, "the last values")
        yield Structure(f"pulse/{name}", Trace, (1,), name, "the last count, which moves no more")
        yield Structure(f"works/{name}", Trace, (STATES,), name, "the last values")


def of_learning(plan: RunPlan, optimizer: str = OPTIMIZER) -> Iterator[Structure]:
    """What the first optimizer of a learner publishes."""
    size = (policy_nbytes(plan),)
    name = keyed("weights", plan.key)
    yield Structure(name, WeightBoard, size, optimizer, "the last complete version")


def keyed(name: str, key: str) -> str:
    """The name of a structure of which each learner has one."""
    return f"{name}/{key}" if key else name


def of_evaluation(plan: RunPlan) -> Iterator[Structure]:
    """What of it is evaluated."""
    size = (policy_nbytes(plan),)
    yield Structure("evaluation", EvaluationSlot, size, OPTIMIZER, "the snapshot, if complete")


def of_shards(plan: RunPlan) -> Iterator[Structure]:
    """Where the experience of each goes, and what its groups and their policy node say.

    There may be many, so what is the same of all is worked out once.
    """
    envs = plan.config.rollout.envs_per_shard
    rows = [len(plan.group_envs(group)) for group in range(plan.groups)]
    if plan.replays:
        logged = replay_columns(plan), rows_per_log(plan), envs, rows_in_reserve(plan)
    else:
        kept = rollout_fields(plan), slots_per_shard(plan), plan.config.steps, envs
    if plan.names.policy:
        asked, answer = request_fields(plan), reply_fields(plan)
    for shard in plan.shards:
        if plan.replays:
            left = "at most one open step of each environment, which no window or stack crosses"
            yield Structure(f"replay/{shard}", ReplayLog, logged, EXECUTOR, left, (REPLAY,))
        else:
            left = "an open slot, which nobody reads, or a rollout not reported, which is ordered "
            left += "anew"
            yield Structure(f"rollouts/{shard}", RolloutStore, kept, EXECUTOR, left, (STAGES,))
        for group, count in enumerate(rows):
            name = f"{shard}.{group}"
            left = "the last position, for the crash report, and what was begun, for its successor"
            yield Structure(f"progress/{name}", Trace, (progress_words(count),), EXECUTOR, left)
            if plan.names.policy:
                left = "the old number, so nothing was asked"
                shape = mail.Request, asked, count
                yield Structure(f"requests/{name}", Mailbox, shape, EXECUTOR, left)
                left = "the old number; the request stays open"
                yield Structure(
                    f"replies/{name}", Mailbox, (mail.Reply, answer, count), ACTOR, left
                )


def of_replay(plan: RunPlan) -> Iterator[Structure]:
    """What the replay node and the optimizers exchange, and what its successor goes on from."""
    batch = mail.Drawn, batch_fields(plan), rows_per_batch(plan)
    result = mail.Learnt, result_fields(plan), rows_per_batch(plan)
    for rank, name in enumerate(plan.names.optimizers):
        for slot in range(plan.config.replay.slots):
            left = "the old number, so the batch was not drawn; a successor draws it"
            yield Structure(f"batches/{rank}.{slot}", Mailbox, batch, REPLAY, left)
            left = "the old number, so the batch is still the optimizer's; the run ends"
            yield Structure(f"results/{rank}.{slot}", Mailbox, result, name, left)
    if said := later_columns(plan):
        shape = said, plan.config.envs, rows_per_log(plan)
        left = "some of what was said of a batch, which its successor writes once more"
        yield Structure("side", SideColumns, shape, REPLAY, left)
    if plan.keeps_replay:
        yield from _of_successor(plan)


def _of_successor(plan: RunPlan) -> Iterator[Structure]:
    """What a replay node that takes over goes on from."""
    moment = mail.Moment, moment_fields(plan), 1
    left = "the last moment, to which its successor goes back"
    for box in range(MOMENTS):
        yield Structure(f"moments/{box}", Mailbox, moment, REPLAY, left)
    if plan.config.replay.prioritized:
        leaves = (rows_per_log(plan) * plan.config.envs,)
        left = "some changes since the last moment, which its successor makes once more"
        yield Structure("priorities", KeptPriorities, leaves, REPLAY, left)
    elif not later_columns(plan):
        return
    answer = mail.Carried, carried_fields(plan), rows_per_batch(plan)
    for rank in range(plan.optimizers):
        for place in range(plan.config.replay.slots - 1):
            left = "whole: written before the run begins"
            yield Structure(f"carried/{rank}.{place}", Mailbox, answer, REPLAY, left)


def of_optimizers(plan: RunPlan) -> Iterator[Structure]:
    """What several optimizers tell each other."""
    gradient = mail.Gradient, gradient_fields(plan), 1
    for rank, name in enumerate(plan.names.optimizers):
        for box in range(gradient_boxes(plan)):
            left = "the old number: the others wait for it until the run ends"
            yield Structure(f"gradients/{rank}.{box}", Mailbox, gradient, name, left)
        if not plan.averages:
            left = "the old numbers; the run ends"
            yield Structure(f"bases/{rank}", Mailbox, (mail.Base, (), 1), name, left)
            yield Structure(f"applied/{rank}", Mailbox, (mail.Applied, (), 1), OPTIMIZER, left)
    if plan.averages:
        left = "the old number: the others give up after two minutes"
        yield Structure("meeting", Mailbox, (mail.Meeting, (), 1), OPTIMIZER, left)
    else:
        size = (networks_nbytes(plan),)
        yield Structure("networks", WeightBoard, size, OPTIMIZER, "the last complete version")


def of_tiles(plan: RunPlan) -> Iterator[Structure]:
    """Where the environments that can be watched are shown."""
    for tile in tiles(plan.config):
        size = (frame_layout(plan).nbytes,)
        writer = EVALUATOR if tile.shard is None else EXECUTOR
        yield Structure(f"frames/{tile.number}", WeightBoard, size, writer, "the last frame")


def watching(plan: RunPlan) -> Structure:
    """Where a viewer says what it wants to see (`fast_core.run.watching.Watching`).

    A node that watches yields it in `Node.structures`, and names it in ``writes``.
    """
    words = watching_words(len(tiles(plan.config)))
    return Structure(WATCHING, Trace, (words,), left_by_death="what it wanted last")


def insights(plan: RunPlan) -> Structure | None:
    """Where the first optimizer puts what a viewer needs to tell what the policy thinks.

    The policy's parameters with those that only insights need, all of one moment. A node that
    watches yields it in `Node.structures`, and names it in ``reads``. None: weights are enough.
    """
    environment, blueprint = plan.environment, plan.blueprint
    if not (more := blueprint.insight_fields(environment)):
        return None
    nbytes = ParameterPack((*blueprint.policy_fields(environment), *more)).nbytes
    return Structure(INSIGHTS, WeightBoard, (nbytes,), OPTIMIZER, "the last complete version")


# --- sizes ---------------------------------------------------------------------------------------


def policy_nbytes(plan: RunPlan) -> int:
    """Bytes of the parameters that a policy acts with."""
    return ParameterPack(plan.blueprint.policy_fields(plan.environment)).nbytes


def networks_nbytes(plan: RunPlan) -> int:
    """Bytes of all parameters and all targets."""
    return 2 * 4 * plan.blueprint.exchanged(plan.environment)


def frame_layout(plan: RunPlan) -> FrameLayout:
    """How a frame of any tile lies on its board."""
    seen, taken = plan.environment.observation, plan.environment.action
    return FrameLayout(
        obs=(seen.row_dtype, seen.shape),
        action=(taken.row_dtype, taken.shape),
        state=plan.blueprint.state_size(plan.environment),
        picture_bytes=3 * plan.config.dashboard.width**2,
    )


def slots_per_shard(plan: RunPlan) -> int:
    """Rollout slots of a shard: one being trained on and one per ticket of asynchrony."""
    return plan.config.degree + 1


def gradient_boxes(plan: RunPlan) -> int:
    """Mailboxes of each optimizer's gradients: two in turn where all read all of them."""
    return 2 if plan.averages else 1


def rows_per_batch(plan: RunPlan) -> int:
    """Rows of one batch slot: each optimizer's share where they average."""
    rows = plan.replay_spec.batch_size
    return rows // plan.optimizers if plan.averages else rows


def rows_per_log(plan: RunPlan) -> int:
    """Rows of each environment that the replay keeps, final observations included."""
    return -(-plan.config.replay.capacity // plan.config.envs)


def rows_per_burst(plan: RunPlan) -> int:
    """Most rows of one environment that are written while no step is drawn.

    A step of each row may end an episode, which takes two rows. So many tickets as the degree
    allows are ahead, and where the ratio is small some pass that grant no step.
    """
    scheduler = plan.config.scheduler
    granted = scheduler.ratio * plan.config.rows_per_ticket
    tickets = plan.config.degree + max(1, math.ceil(1 / granted))
    return 2 * plan.config.steps * tickets


def rows_in_reserve(plan: RunPlan) -> int:
    """Rows of each replay log that are kept beyond those drawn."""
    return reserve_of(rows_per_log(plan), rows_per_burst(plan))


# --- rows of mailboxes ---------------------------------------------------------------------------

MOMENTS = 2  # one is whole while the other is written


def moment_fields(plan: RunPlan) -> Fields:
    """A moment of the replay node: `fast_core.nodes.replay.moments` says what it is.

    Per log how far the priorities have followed it; the random streams of rows and priorities;
    windows drawn, rejected, lapped and priorities refused for their value, or as stale; and how
    far each group of optimizers is.
    """
    together = not plan.shares_async
    groups = 1 if together else plan.optimizers
    return (
        FieldSpec("positions", (plan.config.envs, 2), "uint64", "rollout"),
        FieldSpec("streams", (2, 3), "uint64", "rollout"),
        FieldSpec("counters", (5,), "uint64", "rollout"),
        FieldSpec("groups", (groups, 5), "int64", "rollout"),
    )


def gradient_fields(plan: RunPlan) -> Fields:
    """What one of several optimizers tells the others.

    At most ``P`` numbers of the gradient count; the digest of what all must have alike is
    zero where it was not computed.
    """
    size = plan.blueprint.exchanged(plan.environment)
    gradient = FieldSpec("gradient", (size,), "float32", "rollout")
    return (gradient, FieldSpec("digest", (32,), "uint8", "rollout"))
