"""What a run's memory is for, and how it would fit."""

from __future__ import annotations

from fast_core.memory import Layout, memory_available
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_log
from fast_core.run.tiles import tiles

SHARE_OFFERED = 0.95  # of what is free, since other programs take memory too


def private_nbytes(plan: RunPlan) -> int:
    """What nodes take by themselves that grows with the configuration."""
    return sum(part.private_nbytes(plan) for part in plan.parts)


def arithmetic(plan: RunPlan, layout: Layout) -> str:
    """What the memory is for, and which keys make it smaller."""
    totals = {"priorities": private_nbytes(plan)}
    for region in layout.describe():
        kind = region.name.partition("/")[0]
        totals[kind] = totals.get(kind, 0) + region.nbytes
    parts = sorted(totals.items(), key=lambda item: -item[1])
    listed = ", ".join(f"{kind} {nbytes / 2**20:,.1f}" for kind, nbytes in parts if nbytes)
    own = ", what nodes.extra add in their structures()" if plan.own else ""
    frames = ", frames with dashboard.tiles and dashboard.width" if tiles(plan.config) else ""
    return (
        f"In MiB: {listed}. Rollouts shrink with rollout.shards, rollout.envs_per_shard, "
        "rollout.steps and scheduler.off_policy_degree, the replay with replay.capacity, batches "
        f"with algorithm.batch_size, replay.slots and nodes.optimizer.count{frames}{own}."
    )


def fitting(plan: RunPlan, layout: Layout) -> str:
    """The capacity of the replay with which the rest would fit, if that is what is too large."""
    grows = ("replay/", "priorities", "side")
    replay = sum(each.nbytes for each in layout.describe() if each.name.startswith(grows))
    if not replay:
        return ""
    growing = replay + private_nbytes(plan)
    left = memory_available().left(plan.config.memory.backing) - (layout.nbytes - replay)
    envs, least = plan.config.envs, plan.config.replay.learning_starts
    rows = int(left * SHARE_OFFERED / growing * rows_per_log(plan)) * envs
    return f" Lower replay.capacity to {rows} or less." if least <= rows else ""
