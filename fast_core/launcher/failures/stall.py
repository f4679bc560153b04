"""Finds nodes that hang: a call into user code that does not return, or a stopped process."""

from __future__ import annotations

import time
from collections.abc import Collection

from fast_core.envs import ProgressWord
from fast_core.events import Failed
from fast_core.launcher.failures.postmortem import describe_place
from fast_core.memory import PULSE_PERIOD_S
from fast_core.memory.stats import StatsSnapshot
from fast_core.nodes.node import NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan

CHECK_INTERVAL_S = 0.2
# A pulse that has not moved for so long has missed some: whoever is at fault, it is not a call.
MISSED_S = 6 * PULSE_PERIOD_S
PLACE_WORDS = int(ProgressWord.EPISODE)
_STEPPING = (NodeState.STEPPING, NodeState.EVALUATING, NodeState.TRYING)


class StallDetector:
    """Compares each node's counters with those of before, on the monotonic clock.

    A node counts as hanging while none of its counters moves for as long as its state allows:
    ``environment.step_timeout_s`` while it steps environments, ``supervision.start_timeout_s``
    while it makes some anew, ``supervision.work_timeout_s`` otherwise, since even a node that
    waits takes a turn every `WAIT_LIMIT_S`. That time runs only while the process lives, as its
    `Pulse` shows: what is stopped did not hang in whatever it was calling. A pulse that stands
    still for ``supervision.heartbeat_timeout_s`` is a failure of its own. A launcher that was
    itself paused forgives the pause. Inline there is no pulse, and nobody apart to be silent.
    """

    def __init__(self, plan: RunPlan, memory: RunMemory) -> None:
        self._plan, self._memory, self._stats = plan, memory, memory.all_stats()
        self._progress = [
            [memory.progress(shard, group) for group in range(plan.groups)]
            for shard in range(plan.config.rollout.shards)
        ]
        self._pulses = {node: memory.pulse(node) for node in self._stats}
        self._beats: dict[str, tuple[int, float | None]] = {}
        self._moved_s: dict[str, float] = {}
        self._last: dict[str, tuple[int, ...]] = {}
        for node in self._stats:
            self.renew(node)
        self._checked_s = time.monotonic()
        self._forgiven_s: float = 0.0

    def renew(self, node: str) -> None:
        """Another process is this node from now on; nothing is expected of it until it begins."""
        self._beats[node] = self._pulses[node][0], None
        self._last.pop(node, None)

    def check(
        self, now_s: float, lost: Collection[str] = (), only: str | None = None
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
            snapshot, silent_s = stats.snapshot(), self._silent_s(node, now_s)
            if silent_s > MISSED_S:
                self._last.pop(node, None)  # so that its time begins anew when it goes on
                failure = self._stopped(node, snapshot, silent_s)
            else:
                failure = self._hangs(node, snapshot, now_s)
            if failure is not None:
                return failure
        return None

    def _hangs(self, node: str, row: StatsSnapshot, now_s: float) -> Failed | None:
        limit_s, key, what = self._limit(row)
        executes = node in self._plan.names.env
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

    def _silent_s(self, node: str, now_s: float) -> float:
        """For how long the node's pulse has not moved; 0 before it begins."""
        count, (last, beat_s) = self._pulses[node][0], self._beats[node]
        if count != last:
            self._beats[node] = count, now_s
            return 0.0
        return 0.0 if beat_s is None else now_s - max(beat_s, self._forgiven_s)

    def _stopped(self, node: str, row: StatsSnapshot, silent_s: float) -> Failed | None:
        limit_s = self._plan.config.supervision.heartbeat_timeout_s
        if silent_s < limit_s:
            return None
        return Failed(
            node=node,
            doing=NodeState(row.state).name.lower(),
            error=f"no sign of life for {limit_s:g} s (supervision.heartbeat_timeout_s): the "
            "process is stopped, or the machine is overloaded or was suspended",
            traceback="",
            context={},
        )
