"""What a run's newest row of metrics says of this moment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fast_core.dashboard.feed import Feed
from fast_core.dashboard.source import Ahead, Cell, RunFacts

_RATES = {"env_steps_per_s": "time/env_steps_per_s", "updates_per_s": "time/updates_per_s"}


class Figures:
    """Reads the newest row of training."""

    def __init__(self, feed: Feed) -> None:
        self._row: Mapping[str, Cell] = feed.histories["train"].last or {}

    @property
    def env_steps(self) -> int:
        """Environment steps trained on."""
        return self._count("env_steps") or 0

    @property
    def updates(self) -> int:
        """Optimizer steps."""
        return self._count("updates") or 0

    @property
    def elapsed_s(self) -> float:
        """Seconds of training."""
        return self._number("time_s") or 0.0

    @property
    def rates(self) -> dict[str, float]:
        """What is done in a second."""
        found = {name: self._number(key) for name, key in _RATES.items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def ahead(self) -> Ahead:
        """How far collecting is ahead of training."""
        return Ahead(
            degree=self._count("scheduler/degree"),
            admitted=self._count("scheduler/rounds_collected"),
            merged=self._count("scheduler/rounds_merged"),
            trained=self._count("scheduler/rounds_trained"),
            lag_mean=self._number("scheduler/lag_beyond_round"),
            lag_max=self._number("scheduler/lag_beyond_max"),
        )

    def _number(self, name: str) -> float | None:
        value = self._row.get(name)
        return float(value) if isinstance(value, int | float) else None

    def _count(self, name: str) -> int | None:
        value = self._number(name)
        return None if value is None else int(value)


def why_no_frames(run: RunFacts, own_page: str = "", *, died: bool = False) -> str:
    """Why a page shows no frames of a run that does not serve it, and how to get them.

    ``own_page`` is the address of the one that the run serves, if it does; ``died`` is whether it
    served one whose process is gone.
    """
    if not run.running:
        where = shlex.quote(run.directory)
        return f"The run has ended. `fastloop watch {where} --play` shows its policy play."
    if own_page:
        return f"Its frames are on the page that the run itself serves: {own_page}"
    why = "The run was started without --dashboard."
    if died:
        why = "The process of the run's own page has died (crash.txt there says how)."
    return (
        f"{why} To see frames: `fastloop stop {run.directory}`, "
        f"then `fastloop resume {run.directory} --dashboard`; it goes on exactly where it was."
    )
