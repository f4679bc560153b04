"""What a run's newest row of metrics says of this moment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from fast_core.dashboard.feed import Feed
from fast_core.dashboard.source import Ahead, Cell, Now, RunFacts

_RATES = {"env_steps_per_s": "time/env_steps_per_s", "updates_per_s": "time/updates_per_s"}


def now_of(feed: Feed) -> Now:
    """What the newest row of training says; nodes, tiles and the phase stand in no row."""
    row: Mapping[str, Cell] = feed.histories["train"].last or {}

    def number(name: str) -> float | None:
        value = row.get(name)
        return float(value) if isinstance(value, int | float) else None

    def count(name: str) -> int | None:
        value = number(name)
        return None if value is None else int(value)

    rates = {name: number(key) for name, key in _RATES.items()}
    return Now(
        phase="",
        elapsed_s=number("time_s") or 0.0,
        env_steps=count("env_steps") or 0,
        updates=count("updates") or 0,
        rates={name: value for name, value in rates.items() if value is not None},
        ahead=Ahead(
            degree=count("scheduler/degree"),
            admitted=count("scheduler/rounds_collected"),
            merged=count("scheduler/rounds_merged"),
            trained=count("scheduler/rounds_trained"),
            lag_mean=number("scheduler/lag_beyond_round"),
            lag_max=number("scheduler/lag_beyond_max"),
        ),
    )


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
