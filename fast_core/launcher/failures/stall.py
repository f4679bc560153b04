"""Finds nodes that hang: a call into user code that does not return, or a stopped process."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from fast_core.launcher.failures.postmortem import describe_place
from fast_core.memory import PULSE_PERIOD_S, StatsRow
from fast_core.messages import Failed
from fast_core.nodes.node import WAIT_LIMIT_S, NodeState
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.system.process_state import EXEC
from fast_core.system.progress import ProgressWord

CHECK_INTERVAL_S = 0.2
PAUSE_S = 2.0  # a launcher that looks no sooner was itself paused, and saw nothing of the nodes
# A pulse that has not moved for so long has missed some: whoever is at fault, it is not a call.
MISSED_S = 6 * PULSE_PERIOD_S
# Work that was done before may take so many times the longest of its kind, and so many times what
# the first of its kind took, which may have compiled or tuned something.
PATIENCE, FIRST_PATIENCE = 20.0, 2.0
PLACE_WORDS = int(ProgressWord.BEGUN)
_STEPPING = (NodeState.STEPPING, NodeState.EVALUATING, NodeState.TRYING)
_WORK = {
    NodeState.WAITING: "it did not come back from a turn of its own",
    NodeState.LEARNING: "its learner did not come back from update or change",
    NodeState.PUBLISHING: "it did not publish the policy, whose parameters the learner gives",
    NodeState.SAVING: "it did not save its part of a checkpoint",
    NodeState.ACTING: "the policy did not return from act or load",
    NodeState.TRANSFORMING: "transform did not return",
    NodeState.DRAWING: "it did not come back from drawing batches",
    NodeState.HANDLING: "it did not come back from handling a message",
}


class Limit(NamedTuple):
    """How long a node's counters may stand still.

    Attributes:
        seconds: So long; None for ever.
        key: The setting that says so.
        what: What has not happened by then.
    """

    seconds: float | None
    key: str
    what: str


@dataclass
class _Watched:
    """A node, and what is known of its work.

    Attributes:
        stats: Its counters.
        pulse: The count of its sign of life.
        works: How often it has come back from work in each state.
        count: The pulse when it was looked at last.
        beat_s: When that was seen to have moved last; None before it began.
        lived_s: The look before that: it may have been stopped at any time since.
        counters: The counters when they moved last, the state first; empty for none.
        moved_s: When that was.
        repeats: Whether what it does since then has been done before.
        longest_s: By state, the longest that counters stood still in work that was no first one.
        first_s: By state, the longest that they did in work that was.
    """

    stats: StatsRow
    pulse: memoryview
    works: memoryview
    count: int = 0
    beat_s: float | None = None
    lived_s: float = 0.0
    counters: tuple[int, ...] = ()
    moved_s: float = 0.0
    repeats: bool = False
    longest_s: dict[int, float] = field(default_factory=dict)
    first_s: dict[int, float] = field(default_factory=dict)

    def silent_s(self, now_s: float, before_s: float, forgiven_s: float) -> float:
        """For how long the pulse has not moved; 0 before it begins. ``before_s``: the last look."""
        count = self.pulse[0]
        if count != self.count:
            self.count, self.beat_s, self.lived_s = count, now_s, before_s
        return 0.0 if self.beat_s is None else now_s - max(self.beat_s, forgiven_s)

    def look(self, counters: tuple[int, ...], now_s: float, unseen_s: float) -> bool:
        """Compare the counters with those of before; whether they stand still.

        Args:
            counters: Of now, the state first.
            now_s: The time.
            unseen_s: For how long before it nobody looked who should have.
        """
        if counters == self.counters:
            return True
        if self.counters:
            state = self.counters[0]
            kind = self.longest_s if self.repeats else self.first_s
            stood_s = max(now_s - self.moved_s - unseen_s, 0.0)
            kind[state] = max(stood_s, kind.get(state, 0.0))
        self.counters, self.moved_s = counters, now_s
        self.repeats = self.works[counters[0]] > 0
        return False


class StallDetector:
    """Compares each node's counters with those of before, on the monotonic clock.

    A node counts as hanging while none of its counters moves for as long as its state allows:
    ``environment.step_timeout_s`` while it steps environments, ``supervision.start_timeout_s``
    while it makes some anew, ``supervision.work_timeout_s`` otherwise, since even a node that
    waits takes a turn every `WAIT_LIMIT_S`. Work that the node has come back from before, as it
    counts itself, has a scale: `PATIENCE` times the longest so far, `FIRST_PATIENCE` times the
    first, which may have compiled or tuned something, and at least
    ``supervision.repeat_timeout_s``.

    That time runs only while the process lives, as its `Pulse` shows: what is stopped did not hang
    in whatever it was calling. A pulse that stands still for ``supervision.heartbeat_timeout_s``
    is a failure of its own. A launcher that was itself paused forgives the pause. Inline there is
    no pulse, and nobody apart to be silent.

    Whoever acts on a `Failed` of this finds ``hangs`` set: the process is still there.
    """

    def __init__(
        self, plan: RunPlan, memory: RunMemory, executes: Callable[[str], str] = lambda node: ""
    ) -> None:
        """``executes`` names the program that a node's process executes in place of the node."""
        self._plan, self._memory, self._executes = plan, memory, executes
        self._progress = [
            [memory.progress(shard, group) for group in range(plan.groups)]
            for shard in range(plan.config.rollout.shards)
            if f"progress/{shard}.0" in memory  # else no node of this host executes any
        ]
        self._watched: dict[str, _Watched] = {}
        for node in memory.all_stats():
            self._renew(node)
        self._checked_s = time.monotonic()
        self._forgiven_s: float = 0.0
        self._unseen_s: float = 0.0

    def check(
        self, now_s: float, lost: Collection[str] = (), only: str | None = None
    ) -> Failed | None:
        """The first node found hanging, as a failure; None while all is well.

        Nodes in ``lost`` are gone, which is known; what comes back as one of them is another
        process. With ``only`` no other node has its turn.
        """
        pause_s = now_s - self._checked_s
        if pause_s < CHECK_INTERVAL_S:
            return None
        self._checked_s = now_s
        late = pause_s > PAUSE_S
        if late:
            self._forgiven_s = now_s
        self._unseen_s = pause_s - CHECK_INTERVAL_S if late else 0.0
        for node, watched in [*self._watched.items()]:
            if node in lost and (watched.counters or watched.beat_s is not None):
                self._renew(node)
            if node in lost or only not in (None, node):
                continue
            silent_s = watched.silent_s(now_s, now_s - pause_s, self._forgiven_s)
            if silent_s > MISSED_S:
                watched.counters = ()  # so that its time begins anew when it goes on
                failure = self._stopped(node, watched.stats.snapshot(), silent_s)
            else:
                failure = self._hangs(node, watched, now_s)
            if failure is not None:
                return failure
        return None

    def forgive(self, node: str) -> None:
        """Let this node's time begin anew, when it was looked at last."""
        watched = self._watched[node]
        watched.counters = ()
        if watched.beat_s is not None:
            watched.beat_s = self._checked_s

    def _renew(self, node: str) -> None:
        """Another process is this node from now on; nothing is expected of it until it begins."""
        memory, pulse = self._memory, self._memory.pulse(node)
        watched = _Watched(memory.stats(node), pulse, memory.works(node), count=pulse[0])
        self._watched[node] = watched

    def _hangs(self, node: str, watched: _Watched, now_s: float) -> Failed | None:
        row = watched.stats.snapshot()
        executes = node in self._plan.names.steppers
        place = tuple(self._progress[row.shard][row.group][:PLACE_WORDS]) if executes else ()
        moving = (row.state_since_ns, row.env_steps, row.progress)
        counters = (row.state, *moving, *place, *watched.works)
        if not watched.look(counters, now_s, self._unseen_s):
            return None
        limit = self._limit(row, watched)
        lived_s = now_s if watched.beat_s is None else watched.lived_s
        still_s = lived_s - max(watched.moved_s, self._forgiven_s)
        if limit.seconds is None or still_s < limit.seconds:
            return None
        return Failed(
            node=node,
            doing=f"{NodeState(row.state).name.lower()} for {still_s:.1f} s without an end",
            error=f"{limit.what} within {limit.seconds:g} s ({limit.key})",
            traceback="",
            context=describe_place(self._plan, self._memory, row) if executes else {},
            hangs=True,
        )

    def _limit(self, row: StatsRow, watched: _Watched) -> Limit:
        """How long a node's counters may stand still in its state."""
        environment, supervision = self._plan.config.environment, self._plan.config.supervision
        if row.state in _STEPPING:
            calls = "reset, step or close" if row.state == NodeState.TRYING else "reset or step"
            what = f"an environment did not return from {calls}"
            return Limit(environment.step_timeout_s, "environment.step_timeout_s", what)
        if row.state == NodeState.STARTING:
            # One that never left that state is not ready, which the scheduler limits.
            limit_s = self._plan.start_timeout_s if row.state_since_ns else None
            what = "the environments of a shard were not made and begun"
            return Limit(limit_s, "supervision.start_timeout_s", what)
        if row.state in (NodeState.WRITING, NodeState.STOPPED):
            return Limit(None, "", "")  # slow disks never disturb training; the grace time ends it
        longest_s, most_s = watched.longest_s.get(row.state, 0.0), supervision.work_timeout_s
        first_s = watched.first_s.get(row.state, 0.0)
        scale_s = max(PATIENCE * longest_s, FIRST_PATIENCE * first_s)
        usual_s = max(supervision.repeat_timeout_s, scale_s)
        what = _WORK[NodeState(row.state)]
        if row.state == NodeState.WAITING and most_s is not None:  # no turn is missed by then
            most_s, usual_s = max(most_s, 3 * WAIT_LIMIT_S), max(usual_s, 3 * WAIT_LIMIT_S)
        if most_s is None or not watched.repeats or usual_s >= most_s:
            return Limit(most_s, "supervision.work_timeout_s", what)
        key = "supervision.repeat_timeout_s"
        if before_s := max(longest_s, first_s):
            key += f"; the longest before took {max(before_s, CHECK_INTERVAL_S):.1f} s"
        return Limit(usual_s, key, what)

    def _stopped(self, node: str, row: StatsRow, silent_s: float) -> Failed | None:
        limit_s, stack = self._plan.config.supervision.heartbeat_timeout_s, ""
        if program := self._executes(node):
            error = f"its process executes another program in its place: {program!r}. {EXEC}"
            stack = "Nothing of the node is left, so there is no stack.\n"
        elif silent_s < limit_s:
            return None
        else:
            error = (
                f"no sign of life for {limit_s:g} s (supervision.heartbeat_timeout_s): the "
                "process is stopped, or the machine is overloaded or was suspended"
            )
        doing = NodeState(row.state).name.lower()
        return Failed(node, doing, error, stack, {}, hangs=True)
