"""The parts of a run in one call of the launcher: one, but where an optimizer's death ends some."""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.config import RunConfig
from fast_core.events import Failed
from fast_core.launcher.calling.host import Host
from fast_core.monitor.view import RunSummary
from fast_core.screens.served import Served


@dataclass(frozen=True)
class LostPart:
    """A part that has ended with the death of an optimizer, and is to be gone on with.

    Attributes:
        config: Resolved.
        cause: Why it ended.
        report: The same for people.
        reached: What it had reached.
        callbacks: What calls them, idle now; None without any.
        page: Where its page was served; None without one.
    """

    config: RunConfig
    cause: Failed
    report: str
    reached: RunSummary
    callbacks: Host | None
    page: Served | None = None


@dataclass(frozen=True)
class Comeback:
    """What a part goes on from.

    Attributes:
        lost: The part before.
        text: What happened, a sentence with figures.
        env_steps: Where it goes on.
    """

    lost: LostPart
    text: str
    env_steps: int

    @property
    def redone(self) -> int:
        """Environment steps that are trained on once more."""
        return self.lost.reached.env_steps - self.env_steps
