"""Where the rollouts of a shard go: slots that others read in place, or the logs of the replay."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

import numpy as np

from fast_core.memory import ReplayLog, RolloutSlot, RolloutStore
from fast_core.messages import RolloutOrder
from fast_core.run.columns import replay_columns, rollout_fields
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan


class SharedRollouts:
    """Slots in shared memory.

    Concurrency: while it holds the shard, the node is the only writer of the shard's slots. A
    slot's commit word is stored last; a node that dies before that leaves an open slot, which
    nobody reads.
    """

    def __init__(self, memory: RunMemory, shard: int) -> None:
        self._store = memory.rollouts(shard)

    def open(self, order: RolloutOrder) -> RolloutSlot:
        """The ordered slot, open."""
        slot = self._store.slot(order.slot)
        slot.open(order.rollout_id)
        return slot

    def publish(self, order: RolloutOrder) -> None:
        """Commit the slot."""
        self._store.slot(order.slot).commit(order.rollout_id, order.incarnation)


class ReplayRollouts:
    """Private arrays, appended to the shard's replay logs when the rollout is whole.

    So policies and environments write where they write for algorithms that learn from rollouts,
    and a rollout that is given up leaves nothing. The order's slot says nothing here.

    A quarantined step is not stored, since what it led to is not known: what came before it ends
    there as truncated, at the observation that it was taken at, or stays open where that was
    stored with an earlier rollout.

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
        shape = rollout_fields(plan), 1, plan.config.steps, plan.config.rollout.envs_per_shard
        room = memoryview(mmap.mmap(-1, RolloutStore.nbytes(*shape)))  # aligned to a page
        self._slot = RolloutStore.create(room, *shape).slot(0)
        self._history = plan.environment.frames - 1
        # What the logs take of the arrays, by name: ``[T, B, ...]``.
        names = ("action", "reward", "terminated", "truncated", "final_obs")
        self._stored = {name: self._slot[name] for name in names}
        self._stored["obs"] = self._slot["obs"][self._history : -1]
        _, _, _, *further = replay_columns(plan)  # observation, action, reward
        self._further = [each.name for each in further]
        self._log: ReplayLog  # both from the first `open` on
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
        self._log = log
        return log.appender(
            **self._stored, extra={name: self._slot[name] for name in self._further}
        )

    def publish(self, order: RolloutOrder) -> None:
        """Append every step of every environment, but none that was quarantined."""
        assert self._append is not None, "published before it was opened"
        if not self._slot["quarantined"].any():
            self._append()
            return
        self._end_before_quarantine()
        for t, gone in enumerate(self._slot["quarantined"]):
            first = 0
            for end in (*np.flatnonzero(gone).tolist(), len(gone)):
                if first < end:
                    self._append_part(t, first, end)
                if end < len(gone):
                    self._log.cut(end)
                first = end + 1

    def _end_before_quarantine(self) -> None:
        """Truncate what went on until a quarantined step, where that is not stored yet."""
        slot = self._slot
        obs, gone = slot["obs"][self._history :], slot["quarantined"]
        went_on = ~(slot["terminated"][:-1] | slot["truncated"][:-1])
        step, env = np.nonzero(gone[1:] & went_on)
        slot["truncated"][step, env] = True
        slot["final_obs"][step, env] = obs[step + 1, env]

    def _append_part(self, t: int, first: int, end: int) -> None:
        """Append step ``t`` of the environments ``first`` to ``end - 1``."""
        self._log.append(
            **{name: column[t, first:end] for name, column in self._stored.items()},
            first=first,
            extra={name: self._slot[name][t, first:end] for name in self._further},
        )
