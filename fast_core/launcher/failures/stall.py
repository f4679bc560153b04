"""Finds nodes that hang: a call into user code that does not return, or a stopped process."""

from __future__ import annotations

import time
from collections.abc import Collection

from fast_core.envs import ProgressWord
from fast_core.events import Failed
from fast_core.launcher.failures.postmortem import describe_place
from fast_core.memory.stats import StatsSnapshot
from fast_core.nodes.node import NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan

CHECK_INTERVAL_S = 0.2
PLACE_WORDS = int(ProgressWord.EPISODE)
_STEPPING = (NodeState.STEPPING, NodeState.EVALUATING, NodeState.TRYING)


class StallDetector:
    """Compares each node's counters with those of before, on the monotonic clock.

    A node counts as hanging while none of its counters moves for as long as its state allows:
    ``environment.step_timeout_s`` while it steps environments, ``supervision.start_timeout_s``
    while it makes some anew, ``supervision.work_timeout_s`` otherwise, since even a node that
    waits takes a turn every `WAIT_LIMIT_S`. So does one whose I/O thread is silent for
    ``supervision.heartbeat_timeout_s``. A launcher that was itself paused forgives the pause.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory) -> None:
        self._plan, self._memory, self._stats = plan, memory, memory.all_stats()
        self._progress = [
            [memory.progress(shard, group) for group in range(plan.groups)]
            for shard in range(plan.config.rollout.shards)
        ]
        self._moved_s: dict[str, float] = {}
        self._last: dict[str, tuple[int, ...]] = {}
        self._checked_s = time.monotonic()
        self._forgiven_s: float = 0.0

    def check(
        self,
        now_s: float,
        heard_s: dict[str, float],
        lost: Collection[str] = (),
        only: str | None = None,
    ) -> Failed | None:
        """The first node found hanging, as a failure; None while all is well.

        Nodes in ``lost`` are gone, which is known. With ``only`` no other node has its turn.
        """
        pause_s = now_s - self._checked_s
        if pause_s < CHECK_INTERVAL_S:
            return None
        self._checked_s = now_s
        if pause_s > 2.0:
            self._forgiven_s = now_s
        for node, stats in self._stats.items():
            if node in lost or only not in (None, node):
                continue
            snapshot = stats.snapshot()
            failure = self._hangs(node, snapshot, now_s)
            if failure is None and not self._may_hold_the_gil(snapshot):
                failure = self._silent(node, snapshot, now_s, heard_s)
            if failure is not None:
                return failure
        return None

    def _hangs(self, node: str, row: StatsSnapshot, now_s: float) -> Failed | None:
        limit_s, key, what = self._limit(row)
        executes = node in self._plan.names.steppers
        place = tuple(self._progress[row.shard][row.group][:PLACE_WORDS]) if executes else ()
        counters = (row.state, row.state_since_ns, row.env_steps, row.progress, *place)
        if self._last.get(node) != counters or limit_s is None:
            self._last[node], self._moved_s[node] = counters, now_s
            return None
        still_s = now_s - max(self._moved_s[node], self._forgiven_s)
        if still_s < limit_s:
            return None
        return Failed(
            node=node,
            doing=f"{NodeState(row.state).name.lower()} for {still_s:.1f} s without an end",
            error=f"{what} within {limit_s:g} s ({key})",
            traceback="",
            context=describe_place(self._plan, self._memory, row) if executes else {},
        )

    def _limit(self, row: StatsSnapshot) -> tuple[float | None, str, str]:
        """How long a node's counters may stand still in its state, None for ever; key and words."""
        environment, supervision = self._plan.config.environment, self._plan.config.supervision
        if row.state in _STEPPING:
            calls = "reset, step or close" if row.state == NodeState.TRYING else "reset or step"
            what = f"an environment did not return from {calls}"
            return environment.step_timeout_s, "environment.step_timeout_s", what
        if row.state == NodeState.STARTING:
            # One that never left that state is not ready, which the scheduler limits.
            limit_s = supervision.start_timeout_s if row.state_since_ns else None
            what = "the environments of a shard were not made and begun"
            return limit_s, "supervision.start_timeout_s", what
        if row.state == NodeState.WRITING:  # slow disks never disturb training
            return None, "", ""
        what = "it did not come back from what it was doing"
        return supervision.work_timeout_s, "supervision.work_timeout_s", what

    def _may_hold_the_gil(self, row: StatsSnapshot) -> bool:
        """Whether user code runs that may keep the I/O thread from answering.

        It has limits of its own: the start time-out and the step time-out.
        """
        limited = self._plan.config.environment.step_timeout_s is not None
        return row.state == NodeState.STARTING or (limited and row.state in _STEPPING)

    def _silent(
        self, node: str, row: StatsSnapshot, now_s: float, heard_s: dict[str, float]
    ) -> Failed | None:
        limit_s = self._plan.config.supervision.heartbeat_timeout_s
        if node not in heard_s or now_s - max(heard_s[node], self._forgiven_s) < limit_s:
            return None
        return Failed(
            node=node,
            doing=NodeState(row.state).name.lower(),
            error=f"no sign of life for {limit_s:g} s (supervision.heartbeat_timeout_s): the "
            "process is stopped, or the machine is overloaded or was suspended",
            traceback="",
            context={},
        )
