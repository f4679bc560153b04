"""What can still be read in shared memory of a node that died without a word."""

from __future__ import annotations

from fast_core.envs import read_progress
from fast_core.events import Failed
from fast_core.memory.stats import StatsSnapshot
from fast_core.node import NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.seeding import Role


def describe_death(
    plan: RunPlan, memory: RunMemory, node: str, cause: str, log_tail: str
) -> Failed:
    """The report that a killed or crashed node could not send itself.

    ``cause`` says how its process ended; ``log_tail`` are the last lines of its log, where a crash
    in C leaves its stack.
    """
    row = memory.stats(node).snapshot()
    state = NodeState(row.state).name.lower()
    # What a user's node wrote and others can still read, as its kind counts it.
    whole = {f"complete in {each.name}": each for each in plan.own if each.writer == node}
    return Failed(
        node=node,
        doing=state,
        error=f"{node} {cause}",
        traceback=log_tail,
        context=describe_place(plan, memory, row)
        if node in plan.names.env
        else {what: str(memory.at(s.kind, s.name).published()) for what, s in whole.items()},
    )


def describe_place(plan: RunPlan, memory: RunMemory, row: StatsSnapshot) -> dict[str, str]:
    """Shard, environment, episode, seed, step and last action, as far as they were written."""
    if row.state != NodeState.STEPPING:
        return {}
    at = read_progress(
        memory.progress(row.shard, row.group),
        seed=plan.config.seed,
        role=Role.ENVIRONMENT_EPISODE,
        shard=row.shard,
        first_env=plan.group_envs(row.group).start,
    )
    # With all of them at once there is no one environment, and with replay the rollout that was
    # being made lay in the dead node's own memory.
    if plan.replays or not at["environment"].isdecimal():
        return at
    action = memory.rollouts(row.shard).slot(row.slot)["action"]
    return at | {"last action": str(action[row.step, int(at["environment"])].tolist())}
