"""Conducts a rerun: its scheduler is given what is recorded when nodes have done it again."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fast_core.errors import FastLoopError
from fast_core.launcher.conductor import Conductor
from fast_core.launcher.rerunning.following import Follower
from fast_core.memory import StatsColumn
from fast_core.messages import Command, Event, Save
from fast_core.messages.channel import Hub
from fast_core.messages.launching import (
    AbandonCheckpoint,
    CommitCheckpoint,
    EndRun,
    LauncherEvent,
    Tell,
)
from fast_core.run.memory import RunMemory
from fast_core.run.names import METRICS
from fast_core.run.plan import RunPlan
from fast_core.scheduler import SchedulerSettings, Send

_BATCHES = int(StatsColumn.BATCHES)
# What came of them is in the record: callbacks are not called, and nothing is saved.
_LEFT_OUT = (Tell, Save, CommitCheckpoint, AbandonCheckpoint)


class RerunConductor(Conductor):
    """Follows a record instead of the clock and the order of arrival.

    Attributes:
        follower: Knows the record, and how far it has been done again.
    """

    saves = False

    def __init__(self, follower: Follower) -> None:
        self.follower, self.follows = follower, follower.path
        self._ended = self._recorded = False  # whether what is being taken is of the record

    def begin(self, plan: RunPlan, memory: RunMemory) -> None:
        """See `Conductor.begin`."""
        self._published = memory.weights().published
        self._passes = {name: memory.stats(name).words for name in plan.names.policy}

    def settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """With what it waited for when it was recorded."""
        header = self.follower.schedule.header
        return msgspec.structs.replace(
            settings,
            moments=header.moments,
            callbacks_save=header.callbacks_save,
            auto_degree=header.auto_degree,
        )

    def now_s(self) -> float:
        """That of the recorded event that was taken last."""
        return self.follower.now_s

    def due(self, wakeup_s: float) -> bool:
        """Never: time is in the record."""
        return False

    def receive(self, hub: Hub) -> Iterator[Event | LauncherEvent]:
        """What has no turn of its own, and the next recorded events if nodes have done them.

        Then it sends what may be done next.
        """
        for event in hub.receive():
            if not self.follower.hear(event):
                yield event
        while not self._ended and self.follower.over is None:
            followed = self.follower.next()
            if followed is None:
                break
            self._recorded = True
            yield followed
            self._recorded = False
        for node, command in self.follower.release(self._published(), self._passed()):
            hub.send(node, command)

    def orders(self, sends: list[Send]) -> list[Send]:
        """Without what is left out; a recorded run that was interrupted ends as recorded."""
        kept = []
        for send in sends:
            command = send.command
            if isinstance(command, EndRun):
                self._ended = True
                if self._recorded and command.reason == "interrupted":
                    command = EndRun("finished", self.follower.until_end(command.text))
            if not isinstance(command, _LEFT_OUT):
                kept.append(Send(send.node, command))
        return kept

    def send(self, hub: Hub, node: str, command: Command) -> None:
        """Let it wait for its turn, unless it only shows something."""
        if node == METRICS:
            hub.send(node, command)
        else:
            self.follower.hold(node, command)

    def _passed(self) -> dict[str, int]:
        """Forward passes that each policy node has done."""
        return {name: words[_BATCHES] for name, words in self._passes.items()}

    def over(self) -> EndRun | None:
        """How the run ends once all that is recorded is done again."""
        return self._end(self.follower.over)

    def exhausted(self) -> EndRun | None:
        """How the run ends where a node's share of the record is shorter.

        Raises:
            FastLoopError: The record goes on.
        """
        follower = self.follower
        if (end := self._end(follower.exhausted(self._passed()))) is not None:
            return end
        raise FastLoopError(
            f"the rerun came to version {follower.version} as recorded and can't go on: "
            f"recorded comes next {follower.missing()}, which did not happen again"
        )

    def _end(self, why: str | None) -> EndRun | None:
        self._ended = self._ended or why is not None
        return None if why is None else EndRun("finished", why)
