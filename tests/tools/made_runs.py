"""Run directories as a run leaves them, without one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.monitor.run_directory import RunDirectory

CONFIG = """\
name: made
environment: {id: CartPole-v1}
algorithm: {name: ppo}
stop: {env_steps: 1000}
"""
FIRST = datetime(2026, 1, 1)


def made_run(
    folder: Path,
    *changes: str,
    values: Sequence[float | None] = (),
    metric: str = "eval/return_mean",
    every: int = 100,
    outcome: str | None = "finished",
    crash: str = "",
    quarantined: Mapping[int, float] = {},
) -> Path:
    """A run with a value at every ``every`` environment steps; ``changes`` as on a command line.

    Runs made in one folder are a second apart. Without ``outcome`` it was killed.
    """
    config = config_file.loads(CONFIG, changes, algorithm_config_type, source="test")
    number = sum(1 for _ in folder.glob("*/*"))
    run = RunDirectory.create(folder, config.name, FIRST + timedelta(seconds=number), config.seed)
    run.write_config(config_file.dumps(config))
    share = f"{metric.rpartition('/')[0]}/quarantined_share"
    rows: list[dict[str, Any]] = []
    for index, value in enumerate(values, start=1):
        figures = {metric: value, share: quarantined.get(index * every, 0.0)}
        rows.append(
            {"env_steps": index * every, "updates": index, "time_s": 1.0, "values": figures}
        )
    write(run.metrics, rows)
    events = [event("start", "a new run")]
    steps = len(values) * every
    if outcome is not None:
        known = [value for value in values if value is not None]
        facts = {
            "outcome": outcome,
            "env_steps": steps,
            "best_evaluation": max(known, default=None),
        }
        events.append(event("summary", f"{outcome} as told", facts))
    write(run.events, events)
    if crash:
        run.crash.write_text(crash)
    return run.path


def event(what: str, why: str, facts: Mapping[str, Any] = {}) -> dict[str, Any]:
    return {"time_s": 0.0, "wall": "", "what": what, "why": why, "facts": dict(facts)}


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
