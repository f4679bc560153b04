"""A viewer of the user's own that also asks what the policy thinks, and writes it down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fast_core.dashboard.insight import Insights
from fast_core.memory import Structure
from fast_core.run.frame import Frame
from fast_core.run.plan import RunPlan
from fast_core.run.structures import INSIGHTS, insights
from tests.process.viewing import Viewer


class Thoughtful(Viewer):
    """Writes a line of ``thoughts.jsonl`` for each frame of which something is said."""

    reads = Viewer.reads | {"weights", INSIGHTS}

    @classmethod
    def structures(cls, plan: RunPlan, name: str) -> Iterator[Structure]:
        """What it says it wants, and what it is given."""
        yield from super().structures(plan, name)
        if (board := insights(plan)) is not None:
            yield board

    def setup(self) -> None:
        """Attach to that, too."""
        super().setup()
        self._insights = Insights(self.context.plan, self.context.memory)
        self._thoughts = (Path(self.context.plan.run_directory) / "thoughts.jsonl").open("wb")

    def work(self) -> bool:
        """Say that it wants to know."""
        wants = super().work()
        self._watching.want(self._wanted, time.monotonic_ns(), insight=wants)
        return wants

    def _keep(self, tile: int, number: int, frame: Frame) -> None:
        super()._keep(tile, number, frame)
        if (said := self._insights.of(frame)) is not None:
            assert said.tile == tile
            self._thoughts.write(msgspec.json.encode(said) + b"\n")
            self._thoughts.flush()

    def close(self) -> None:
        """Let go of both files."""
        super().close()
        if hasattr(self, "_thoughts"):
            self._thoughts.close()
