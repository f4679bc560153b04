"""What can still be read in shared memory of a node that died without a word."""

from __future__ import annotations

from fast_core.envs import ProgressWord
from fast_core.events import Failed
from fast_core.memory.stats import StatsSnapshot
from fast_core.node import NodeState
from fast_core.plan import RunPlan
from fast_core.run_memory import RunMemory
from fast_core.seeding import EpisodeSeeds, Role


def describe_death(
    plan: RunPlan, memory: RunMemory, node: str, cause: str, log_tail: str
) -> Failed:
    """The report that a killed or crashed node could not send itself.

    ``cause`` says how its process ended; ``log_tail`` are the last lines of its log, where a crash
    in C leaves its stack.
    """
    row = memory.stats().row(plan.node_names.index(node)).snapshot()
    state = NodeState(row.state).name.lower()
    return Failed(
        node=node,
        doing=state,
        error=f"{node} {cause}",
        traceback=log_tail,
        context=_place(plan, memory, row) if node in plan.env_node_names else {},
    )


def _place(plan: RunPlan, memory: RunMemory, row: StatsSnapshot) -> dict[str, str]:
    """Shard, environment, episode, seed, step and last action, as far as they were written."""
    if row.state != NodeState.STEPPING:
        return {}
    words, envs = memory.progress(row.shard), plan.config.rollout.envs_per_shard
    env = words[ProgressWord.ENV]
    episode, begun = words[ProgressWord.EPISODE + env], words[ProgressWord.EPISODE + envs + env]
    seeds = EpisodeSeeds(plan.config.seed, Role.ENVIRONMENT_EPISODE, row.shard, env)
    slot = memory.rollouts(row.shard).slot(row.slot)
    return {
        "shard": str(row.shard),
        "environment": str(env),
        "episode": str(episode),
        "seed": str(seeds[episode]),
        "step": str(words[ProgressWord.STEP] - begun),
        "last action": str(slot["action"][row.step, env].tolist()),
    }
