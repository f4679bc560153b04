"""How far a run that chooses its off-policy degree may go: memory is laid out for it. Pure."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fast_core.memory import MemoryAvailable, RolloutStore
from fast_core.run.plan import RunPlan
from fast_core.run.structures import structures

SHARE = 8  # of what is free, one part for rollouts that nobody has asked for


def with_room(plan: RunPlan, free: MemoryAvailable) -> RunPlan:
    """The plan with no more rollouts ahead than a share of the free memory holds.

    With replay there are none: rows lie in logs, whatever the degree.
    """
    config = plan.config
    stores = [row.shape for row in structures(plan) if row.kind is RolloutStore]
    if not config.scheduler.auto or not stores:
        return plan
    left = free.left(config.memory.backing)
    round_bytes = sum(RolloutStore.nbytes(fields, 1, *size) for fields, _, *size in stores)
    fits = max(1, left // SHARE // round_bytes - 1)
    if fits >= config.scheduler.max_auto_degree:
        return plan
    scheduler = msgspec.structs.replace(config.scheduler, max_auto_degree=fits)
    return replace(plan, config=msgspec.structs.replace(config, scheduler=scheduler))
