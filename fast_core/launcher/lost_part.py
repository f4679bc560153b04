"""The parts of a run in one call of the launcher: one, but where an optimizer's death ends some.

A part that came back so and has not begun ends with the death of any node that has a budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fast_core.config import RunConfig
from fast_core.launcher.calling.host import Host
from fast_core.messages import Failed
from fast_core.monitor.screens.served import Served
from fast_core.monitor.view import RunSummary


@dataclass(frozen=True)
class LostPart:
    """A part that has ended with the death of a node, and is to be gone on with.

    Attributes:
        config: Resolved.
        cause: Why it ended.
        kind: Of the node that died, as ``supervision.restarts`` names it; of a user's its name.
        report: The same for people.
        reached: What it had reached.
        callbacks: What calls them, idle now; None without any.
        page: Where its page was served; None without one.
    """

    config: RunConfig
    cause: Failed
    kind: str
    report: str
    reached: RunSummary
    callbacks: Host | None
    page: Served | None = None

    @property
    def deaths(self) -> Mapping[str, int]:
        """How often which nodes other than optimizers have died by now."""
        node, deaths = self.cause.node, self.reached.deaths
        return deaths if self.kind == "optimizer" else {**deaths, node: deaths.get(node, 0) + 1}

    @property
    def nodes_back(self) -> int:
        """How many of them are back once the next part has begun."""
        return self.reached.nodes_back + (self.kind != "optimizer")


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
