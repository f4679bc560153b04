"""Where the rollouts of a shard go: slots that others read in place, or the logs of the replay."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Protocol

from fast_core.errors import FastLoopError
from fast_core.events import RolloutOrder
from fast_core.memory import RolloutSlot, RolloutStore
from fast_core.plan import RunPlan
from fast_core.run_memory import RolloutRecord, RunMemory


class RolloutSink(Protocol):
    """Gives the arrays that a rollout is written into, and publishes what they hold."""

    def open(self, order: RolloutOrder) -> RolloutSlot:
        """Where the ordered rollout is written."""
        ...

    def publish(self, order: RolloutOrder, version: int) -> None:
        """Let others see the rollout; ``version`` is the oldest that acted in it."""
        ...


class SharedRollouts:
    """Slots in shared memory, announced in the shard's record ring.

    Concurrency: while it holds the shard, the node is the only writer of the shard's slots and of
    the head of its record ring. A slot's commit word is stored last; a node that dies before
    that leaves an open slot, which nobody reads.
    """

    def __init__(self, memory: RunMemory, shard: int) -> None:
        self._store, self._records = memory.rollouts(shard), memory.records(shard)

    def open(self, order: RolloutOrder) -> RolloutSlot:
        """The ordered slot, open."""
        slot = self._store.slot(order.slot)
        slot.open(order.rollout_id)
        return slot

    def publish(self, order: RolloutOrder, version: int) -> None:
        """Commit the slot and push its record.

        Raises:
            FastLoopError: Rollouts that nobody trained on fill the ring.
        """
        self._store.slot(order.slot).commit(order.rollout_id)
        record = RolloutRecord(
            order.shard, order.incarnation, order.slot, order.rollout_id, order.ticket, version
        )
        if not self._records.try_push(record.pack()):
            raise FastLoopError(
                f"record ring of shard {order.shard} is full with {len(self._records)} rollouts "
                "that nobody trained on; the scheduler admitted more than there are slots"
            )


class ReplayRollouts:
    """Private arrays, appended to the shard's replay logs when the rollout is whole.

    So policies and environments write where they write for algorithms that learn from rollouts,
    and a rollout that is given up leaves nothing. The order's slot says nothing here.

    Concurrency: while it holds the shard, the node is the only writer of its logs. A node that
    dies while it appends leaves whole steps of a rollout that is collected anew, and its successor
    marks its own first rows.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, shard: int, goes_on: Sequence[bool]
    ) -> None:
        """``goes_on`` says of each environment whether it continues where the logs end.

        They are attached when the first rollout is opened: until then a resumed run may still be
        filling them.
        """
        self._memory, self._shard, self._goes_on = memory, shard, tuple(goes_on)
        shape = plan.rollout_fields(), 1, plan.config.steps, plan.config.rollout.envs_per_shard
        room = memoryview(mmap.mmap(-1, RolloutStore.nbytes(*shape)))  # aligned to a page
        self._slot = RolloutStore.create(room, *shape).slot(0)
        self._history = plan.environment.frames - 1
        self._append: Callable[[], None] | None = None

    def open(self, order: RolloutOrder) -> RolloutSlot:
        """The same arrays for every rollout."""
        if self._append is None:
            self._append = self._attach()
        return self._slot

    def _attach(self) -> Callable[[], None]:
        log = self._memory.replay_log(self._shard, continues=any(self._goes_on))
        for env, goes_on in enumerate(self._goes_on):
            if not goes_on:
                log.cut(env)
        slot = self._slot
        return log.appender(
            obs=slot["obs"][self._history : -1],
            action=slot["action"],
            reward=slot["reward"],
            terminated=slot["terminated"],
            truncated=slot["truncated"],
            final_obs=slot["final_obs"],
        )

    def publish(self, order: RolloutOrder, version: int) -> None:
        """Append every step of every environment."""
        assert self._append is not None, "published before it was opened"
        self._append()
