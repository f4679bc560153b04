"""What can still be read in shared memory of a node that died without a word."""

from __future__ import annotations

from fast_core.memory import StatsRow
from fast_core.messages import Failed
from fast_core.nodes.node import NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.progress import read_progress
from fast_core.system.seeding import Role


def describe_death(
    plan: RunPlan, memory: RunMemory, node: str, cause: str, log_tail: str
) -> Failed:
    """The report that a killed or crashed node could not send itself.

    ``cause`` says how its process ended; ``log_tail`` are the last lines of its log, where a crash
    in C leaves its stack.
    """
    row = memory.stats(node).snapshot()
    state = NodeState(row.state).name.lower()
    if node in plan.names.steppers:
        context = describe_place(plan, memory, row)
    else:  # what a user's node wrote and others can still read, as its kind counts it
        context = {
            f"complete in {own.name}": str(memory.at(own.kind, own.name).published())
            for own in plan.own
            if own.writer == node
        }
    return Failed(
        node=node,
        doing=state,
        error=f"{node} {cause}",
        traceback=log_tail,
        context=context,
    )


def describe_place(plan: RunPlan, memory: RunMemory, row: StatsRow) -> dict[str, str]:
    """Shard, environment, episode, seed, step and last action, as far as they were written."""
    if row.state == NodeState.ACTING:  # for all environments, which have nothing to do with it
        return {"shard": str(row.shard), "step of the rollout": str(row.step)}
    if row.state != NodeState.STEPPING:
        return {}
    own = plan.of_shard(row.shard)
    at = read_progress(
        memory.progress(row.shard, row.group),
        seed=own.config.seed,
        role=Role.ENVIRONMENT_EPISODE,
        shard=row.shard - own.shards.start,
        first_env=plan.group_envs(row.group).start,
    )
    at["shard"] = str(row.shard)
    # With all of them at once there is no one environment, and with replay the rollout that was
    # being made lay in the dead node's own memory.
    if f"rollouts/{row.shard}" not in memory or not at["environment"].isdecimal():
        return at
    action = memory.rollouts(row.shard).slot(row.slot)["action"]
    return at | {"last action": str(action[row.step, int(at["environment"])].tolist())}
