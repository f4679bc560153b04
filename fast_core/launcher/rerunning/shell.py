"""The scheduler's shell of a rerun: gives it what is recorded when the nodes have done it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fast_core.errors import FastLoopError
from fast_core.events import (
    AbandonCheckpoint,
    Command,
    CommitCheckpoint,
    EndRun,
    Event,
    LauncherEvent,
    Save,
    StopRequested,
    Tell,
)
from fast_core.launcher.rerunning.following import Follower
from fast_core.launcher.shell import Shell
from fast_core.memory import StatsColumn
from fast_core.run.names import METRICS
from fast_core.scheduler import SchedulerSettings, Send
from fast_core.scheduler.statistics import Statistics

_BATCHES = int(StatsColumn.BATCHES)
# What came of them is in the record: callbacks are not called, and nothing is saved.
_LEFT_OUT = (Tell, Save, CommitCheckpoint, AbandonCheckpoint)


class RerunShell(Shell):
    """Follows a record instead of the clock and the order of arrival."""

    def __init__(
        self, follower: Follower, published: Callable[[], int], *args: Any, **kwargs: Any
    ) -> None:
        """``published`` gives the newest published version; the rest is `Shell`'s."""
        self._follower, self._published = follower, published
        super().__init__(*args, **kwargs)

    def _now_s(self) -> float:
        return self._follower.now_s

    def _settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        header = self._follower.schedule.header
        return msgspec.structs.replace(
            settings,
            moments=header.moments,
            callbacks_save=header.callbacks_save,
            auto_degree=header.auto_degree,
        )

    def receive(self, ready: Sequence[int] | None = None) -> bool:
        """Take what nodes have done, and the next recorded event if it is among it."""
        events = self.hub.receive()
        for event in events:
            if not self._follower.hear(event):
                super().take(event)
        return self._follow() or bool(events)

    def _follow(self) -> bool:
        follower, took = self._follower, False
        while self.end is None and follower.over is None:
            event = follower.next()
            if event is None:
                break
            took = True
            super().take(event)
        if took and self.end is not None and self.end.reason == "interrupted":  # as recorded
            self.end = EndRun("finished", follower.until_end(self.end.text))
        if self.end is None and (text := follower.over) is not None:
            self.end = EndRun("finished", text)
        for node, command in follower.release(self._published(), self._passed()):
            super()._send(node, command)
        return took

    def _passed(self) -> dict[str, int]:
        """Forward passes that each policy node has done."""
        return {name: self.stats[name].words[_BATCHES] for name in self.plan.names.policy}

    def _record(self, settings: SchedulerSettings) -> None:
        """It is recorded already."""

    def take(self, event: Event | LauncherEvent) -> None:
        """Take what is not in the record: this run's own failure, or a wish to end it."""
        if isinstance(event, StopRequested):
            event = StopRequested(event.reason, save=False)
        super().take(event)

    def tick_if_due(self) -> None:
        """Time is in the record."""

    def await_others(self, timeout_s: float) -> bool:
        """No node has anything to do, and there is nobody else.

        Raises:
            FastLoopError: The record goes on.
        """
        if (text := self._follower.exhausted(self._passed())) is not None:
            self.end = EndRun("finished", text)
            return True
        raise FastLoopError(
            f"the rerun came to version {self._follower.version} as recorded and can't go on: "
            f"recorded comes next {self._follower.missing()}, which did not happen again"
        )

    def statistics(self, now_s: float | None = None) -> Statistics:
        """A reading at the time of the last event: the clock here is another one."""
        return super().statistics()

    def _carry_out(self, sends: list[Send]) -> None:
        super()._carry_out([send for send in sends if not isinstance(send.command, _LEFT_OUT)])

    def _send(self, node: str, command: Command) -> None:
        if node == METRICS:
            super()._send(node, command)
        else:
            self._follower.hold(node, command)
