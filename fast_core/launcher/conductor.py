"""When the scheduler hears of what: by the clock and as news arrives, or by a record of both."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fast_core.messages import Command, Event
from fast_core.messages.channel import Hub
from fast_core.messages.launching import EndRun, LauncherEvent
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from fast_core.scheduler import SchedulerSettings, Send


class Conductor:
    """Gives the scheduler what nodes send, as it comes, and sends at once what it decides.

    A rerun has one that follows a record instead.

    Attributes:
        follows: The record that nodes follow, too; None without one.
        saves: Whether a run that is asked to end writes a last checkpoint.
    """

    follows: str | None = None
    saves = True

    def begin(self, plan: RunPlan, memory: RunMemory) -> None:
        """This is the run that it conducts."""

    def settle(self, settings: SchedulerSettings) -> SchedulerSettings:
        """The scheduler's settings, as they are to be."""
        return settings

    def now_s(self) -> float:
        """The scheduler's time."""
        return time.monotonic()

    def due(self, wakeup_s: float) -> bool:
        """Whether the scheduler is to be told of the time that it wants to be woken at."""
        return time.monotonic() >= wakeup_s

    def receive(self, hub: Hub) -> Iterable[Event | LauncherEvent]:
        """What is to be taken now; each is before the next is asked for."""
        return hub.receive()

    def orders(self, sends: list[Send]) -> list[Send]:
        """What is carried out of that which the scheduler orders."""
        return sends

    def send(self, hub: Hub, node: str, command: Command) -> None:
        """Send it, or keep it until its turn comes.

        Raises:
            TransportError: See `Hub.send`.
        """
        hub.send(node, command)

    def over(self) -> EndRun | None:
        """How the run ends, if there is nothing more to be taken."""
        return None

    def exhausted(self) -> EndRun | None:
        """How the run ends if no node has anything to do and nothing is waited for."""
        return None
