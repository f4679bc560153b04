"""Committed rollouts as the nodes see them that take them before their slots are free again."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm import ShardRollout
from fast_core.errors import SegmentError
from fast_core.messages import RolloutRef
from fast_core.run.columns import collected_columns
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan


class RolloutReader:
    """From the name of a rollout to its columns in shared memory.

    Concurrency: whoever the scheduler told last (`Transform`, then `Train`) owns the slot until it
    answers. The commit word, loaded with acquire, pairs with the env node's release store; between
    two nodes of a rollout's way the message itself orders their accesses. The slot alone says
    which rollout it holds: one that was lost, is not whole, or was left by an incarnation that is
    dead is noticed here.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory) -> None:
        """Attach to the slots of every shard."""
        self._stores = {shard: memory.rollouts(shard) for shard in plan.shards}
        self._first = plan.shards.start
        self._history = plan.environment.frames - 1
        self._declared = [column.name for column in collected_columns(plan)]

    def view(self, ref: RolloutRef) -> ShardRollout:
        """The rollout ``ref``; its arrays are views of shared memory and may be written to.

        Raises:
            SegmentError: The slot does not hold it.
        """
        slot = self._stores[ref.shard].slot(ref.slot)
        held = slot.committed(), slot.incarnation
        if held != (ref.rollout_id, ref.incarnation):
            raise SegmentError(
                f"told to take rollout {ref.rollout_id} of incarnation {ref.incarnation} of shard "
                f"{ref.shard} out of slot {ref.slot}, but the slot holds rollout {held[0]} of "
                f"incarnation {held[1]}; this is a fault in FastLoop, please report it"
            )
        return ShardRollout(
            shard=ref.shard - self._first,
            rollout_id=ref.rollout_id,
            policy_version=slot["policy_version"],
            obs=slot["obs"][self._history :],
            action=slot["action"],
            behaviour_log_prob=slot["behaviour_log_prob"],
            reward=slot["reward"],
            terminated=slot["terminated"],
            truncated=slot["truncated"],
            final_obs=slot["final_obs"],
            state=slot.get("state"),
            frames=slot["obs"] if "frame_age" in slot else None,
            quarantined=slot["quarantined"],
            frame_age=cast("NDArray[np.uint8] | None", slot.get("frame_age")),
            extra={name: slot[name] for name in self._declared},
        )
