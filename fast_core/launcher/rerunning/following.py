"""Lets nodes do again what is recorded, in an order that gives the same bits. Pure.

The scheduler is given the recorded events, each at its recorded time, in their order, as soon as
the nodes have done again what they tell of. So it sends the same commands in the same order. What
is left is when a node reads weights: an order to collect, and one to take a snapshot, is held back
until the version is published that was read then, and training that would publish the next one
is held back until everybody has read this one. All of this happened in one order when it was
recorded, so there is always something that may be done next.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from fast_core.errors import FastLoopError
from fast_core.launcher.rerunning.entries import FROM_OUTSIDE, UNRECORDED, difference, given, key
from fast_core.messages import (
    Collect,
    Command,
    Event,
    Failed,
    Late,
    NodeExited,
    RolloutOrder,
    RolloutReady,
    Snapshot,
    SnapshotTaken,
    Train,
    Trained,
)
from fast_core.messages.launching import LauncherEvent
from fast_core.run.names import METRICS, OPTIMIZER
from fast_core.run.schedule import Entry, Schedule
from fast_core.scheduler import CALLBACKS

Taken = Event | LauncherEvent
# What an env node was doing that failed or died in the midst of a rollout.
_COLLECTING = ("collecting", "stepping")
# Whose code a rerun leaves out, callbacks and sinks, so what it raised is not raised again.
_NOT_CALLED = (CALLBACKS, METRICS)
_Rollout = tuple[int, int, int]  # shard, incarnation, rollout id


class Follower:
    """Follows a recorded schedule.

    Attributes:
        schedule: What was recorded.
        path: Where it lies; beside it are the shares of nodes.
        now_s: The recorded time of the event that the scheduler was given last.
        trained: Tickets that were trained on again.
        version: Committed updates after the last one.
    """

    def __init__(
        self,
        schedule: Schedule,
        path: str,
        until: int | None = None,
        passes: Mapping[str, Sequence[int]] = {},
    ) -> None:
        """Nothing is done yet.

        Args:
            schedule: What was recorded.
            path: Where it lies.
            until: The update after whose ticket nothing is done any more; None for no such.
            passes: By policy node, the versions that acted in its forward passes.
        """
        self.schedule, self.path, self._passes = schedule, path, passes
        self.now_s = schedule.header.started_s
        self.trained = self.version = 0
        self._until = until
        self._left = deque(_cut(schedule.entries, until))
        self._come: dict[tuple[object, ...], deque[Taken]] = {}
        self._acts: dict[_Rollout, int] = {}
        self._failing: dict[str, int] = {}
        self._snapshots: dict[int, int] = {}
        self._publishes: dict[int, bool] = {}
        self._readers: Counter[int] = Counter()  # who has yet to read a version
        self._held: dict[str, deque[Command]] = {}
        self._trains = False  # whether a ticket is being trained on
        self._acted = True  # whether policy nodes are through with the published version
        self._learn()

    def _learn(self) -> None:
        """Note who read which version."""
        for entry in self._left:
            match entry.event:
                case RolloutReady() as event if not self._passes:
                    self._acts[_rollout(event)] = event.version
                    self._readers[event.version] += 1
                case SnapshotTaken(request=request, version=version):
                    self._snapshots[request] = version
                    self._readers[version] += 1
                case Trained(ticket=ticket, updates=updates):
                    self._publishes[ticket] = updates > 0
                case Failed(node, doing) if doing.startswith(_COLLECTING) and not self._passes:
                    self._failing[node] = entry.version
                    self._readers[entry.version] += 1

    # --- events --------------------------------------------------------------------------------

    def hear(self, event: Event | Late) -> bool:
        """Keep what a node has done until its turn; False if it has none, and is taken at once."""
        if isinstance(event, (*UNRECORDED, Failed)):
            return False
        match event:
            case RolloutReady() if _rollout(event) in self._acts:
                self._readers[self._acts[_rollout(event)]] -= 1
            case RolloutReady(node) if node in self._failing:  # this time it has not failed
                self._readers[self._failing.pop(node)] -= 1
            case SnapshotTaken(request=request) if request in self._snapshots:
                self._readers[self._snapshots[request]] -= 1
            case Trained():
                self._trains = False
        self._come.setdefault(key(event), deque()).append(event)
        return True

    def next(self) -> Taken | None:
        """What the scheduler is given next, if it has come by now.

        Raises:
            FastLoopError: It came out otherwise than recorded.
        """
        if not self._left:
            return None
        entry = self._left[0]
        if isinstance(entry.event, FROM_OUTSIDE):
            event: Taken = entry.event
        else:
            come = self._come.get(key(entry.event))
            if not come:
                return None
            event = come.popleft()
        wrong = difference(event, entry)
        if wrong is not None:
            raise FastLoopError(f"the rerun differs from the record: {wrong}")
        self._left.popleft()
        self.now_s = entry.now_s
        if isinstance(event, Trained):
            self.trained, self.version = self.trained + 1, event.version
        return given(event, entry)

    @property
    def over(self) -> str | None:
        """Why nothing more is to be done, None while there is."""
        if not self._left:
            if self._until is not None and self.version >= self._until:
                return f"ran again as recorded: {self._so_far()}"
            return f"ran again as recorded, to the end of the record: {self._so_far()}"
        event = self._left[0].event
        died = ""
        if isinstance(event, NodeExited):
            died = f"{event.node} {event.cause}"
        elif isinstance(event, Failed) and event.node in _NOT_CALLED:
            died = f"{event.node} failed while {event.doing}: {event.error}"
        elif isinstance(event, Failed) and not event.traceback and event.node not in self._failing:
            died = event.error
        return self.until_end(died) if died else None

    def until_end(self, why: str) -> str:
        """What to say where the recorded run ended otherwise than finished."""
        return f"ran again as recorded, until the recorded run ended: {self._so_far()}; {why}"

    def _so_far(self) -> str:
        tickets = "1 ticket" if self.trained == 1 else f"{self.trained} tickets"
        return f"{tickets}, to update {self.version}"

    def exhausted(self, passed: Mapping[str, int]) -> str | None:
        """Why nothing more can be done although the scheduler's record goes on, None if it can."""
        for node, versions in self._passes.items():
            if passed[node] >= len(versions):
                end = f"to the end of the record of {node}"
                return f"ran again as recorded, {end}: {self._so_far()}"
        return None

    def missing(self) -> str:
        """What is waited for although no node has anything to do."""
        if not self._left:
            return "nothing"
        event = self._left[0].event
        if isinstance(event, Failed):
            return f"the failure of {event.node} while {event.doing} ({event.error})"
        return f"{type(event).__name__} ({', '.join(map(str, key(event)))})"

    # --- commands ------------------------------------------------------------------------------

    def hold(self, node: str, command: Command) -> None:
        """Take a command that is to reach ``node`` when it may."""
        held = self._held.setdefault(node, deque())
        if isinstance(command, Collect):
            held.extend(Collect((order,)) for order in command.rollouts)
        else:
            held.append(command)

    def release(self, published: int, passed: Mapping[str, int] = {}) -> list[tuple[str, Command]]:
        """Commands that may be carried out while the version ``published`` is the newest.

        ``passed`` says how many forward passes each policy node has done again.

        A snapshot passes training that waits for it: with replay it holds what was published
        last, although a ticket before it is being trained on.
        """
        self._acted = all(self._acted_with(node, published, passed[node]) for node in self._passes)
        free = []
        for node, held in self._held.items():
            while held and (command := self._first(node, held, published)) is not None:
                self._trains |= node == OPTIMIZER and isinstance(command, Train)
                held.remove(command)
                free.append((node, command))
        return free

    def _acted_with(self, node: str, version: int, passed: int) -> bool:
        """Whether a policy node has no pass left with this version."""
        versions = self._passes[node]
        return passed >= len(versions) or versions[passed] > version

    def _first(self, node: str, held: Iterable[Command], published: int) -> Command | None:
        for command in held:
            if self._may(node, command, published):
                return command
            if not (isinstance(command, Train) and self._publishes.get(command.ticket, True)):
                return None
        return None

    def _may(self, node: str, command: Command, published: int) -> bool:
        match command:
            case Collect(rollouts=(order,)):
                return bool(self._passes) or published == self._version_of(node, order)
            case Snapshot(request):
                return published == self._snapshots.get(request)
            case Train(ticket=ticket) if node == OPTIMIZER:
                read = self._acted and not self._readers[published]
                return not self._trains and (read or not self._publishes.get(ticket, True))
            case _:
                return True

    def _version_of(self, node: str, order: RolloutOrder) -> int | None:
        """Weights that an order was carried out with, None where it never was."""
        version = self._acts.get((order.shard, order.incarnation, order.rollout_id))
        return self._failing.get(node) if version is None else version


def _rollout(event: RolloutReady) -> _Rollout:
    return event.shard, event.incarnation, event.rollout_id


def _cut(entries: Sequence[Entry], until: int | None) -> Sequence[Entry]:
    """The entries to that with which the update ``until`` is done."""
    if until is None:
        return entries
    for index, entry in enumerate(entries):
        if isinstance(entry.event, Trained) and entry.event.version >= until:
            return entries[: index + 1]
    return entries


def updates(entries: Sequence[Entry]) -> int:
    """Updates that are done where the record ends."""
    versions = (e.event.version for e in reversed(entries) if isinstance(e.event, Trained))
    return next(versions, 0)
