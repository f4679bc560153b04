"""Who listens to a run beside its scheduler: its recorder, callbacks, who asks over a socket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fast_core.launcher.roster import Roster
from fast_core.messages import Command, Event, Failed, Record
from fast_core.messages.launching import LauncherCommand, LauncherEvent
from fast_core.scheduler import Scheduler, SchedulerSettings


class NewRun(NamedTuple):
    """A run of which nothing has happened yet.

    Attributes:
        scheduler: It knows the time.
        settings: What it was told.
        roster: Which nodes are there.
        now_s: The time, on its clock.
    """

    scheduler: Scheduler
    settings: SchedulerSettings
    roster: Roster
    now_s: float


class Listener:
    """Hears what happens, and may have something to say; this one is silent.

    The shell calls it in its own thread. A subclass writes the methods that it needs.
    """

    def settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """The scheduler's settings, with what it must wait for."""
        return settings

    def begin(self, run: NewRun) -> None:
        """This is what it listens to."""

    def filenos(self) -> tuple[int, ...]:
        """One is readable once `take` has something to do."""
        return ()

    @property
    def busy(self) -> bool:
        """Whether a thread of its own is at work, of which something will come."""
        return False

    def take(self) -> Sequence[Event | LauncherEvent]:
        """What it has for the scheduler."""
        return ()

    def overdue(self) -> Failed | None:
        """What of it does not come to an end, once."""
        return None

    def hear(self, event: Event | LauncherEvent, now_s: float) -> None:
        """The scheduler is about to be given ``event``; not after the run's end is decided."""

    def heard(self, event: Event | LauncherEvent) -> None:
        """The scheduler has taken ``event``, which is neither a rollout nor a trained ticket."""

    def obey(self, command: Command | LauncherCommand) -> None:
        """The scheduler orders the launcher, or callbacks, to do something."""

    def row(self, record: Record) -> None:
        """A row of metrics is written."""

    def close(self) -> None:
        """The run is over. May be called twice."""
