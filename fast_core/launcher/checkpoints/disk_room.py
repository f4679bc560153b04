"""Whether the disk can hold the checkpoints of a run that learns from replay.

Each holds the replay, so they are the only files of a run that may be larger than what is free.
A disk that is full costs the checkpoints, hours later.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

from fast_core.errors import ConfigError
from fast_core.memory import ReplayLog, SideColumns
from fast_core.monitor.checkpoint_files import complete_names
from fast_core.run.columns import later_columns, replay_columns
from fast_core.run.plan import RunPlan
from fast_core.run.structures import rows_per_log

TREE_BYTES = 12  # of a row: its priority and what it belongs to (`replay_files.TREE`)


def check_disk(plan: RunPlan, there_bytes: int = 0) -> None:
    """Check that the disk has room for the replay in each checkpoint that is kept.

    Args:
        plan: Of any run.
        there_bytes: What checkpoints that the run will replace take now.

    Raises:
        ConfigError: It has not; the message has the arithmetic.
    """
    if not plan.saves_replay:
        return
    free = shutil.disk_usage(plan.run_directory).free + there_bytes
    rows = list(_rows(plan))
    each = _row_bytes(plan)
    needed = each * sum(rows)
    if needed <= free:
        return
    keep = plan.config.checkpoint.keep
    fewer = max(
        (kept for kept in range(1, keep) if each * sum(rows[: kept + 1]) <= free), default=0
    )
    remedy = f"Lower checkpoint.keep to {fewer}, or" if fewer else "Lower"
    raise ConfigError(
        f"the checkpoints of this run may take {_size(needed)} of disk: {len(rows)} with up to "
        f"{rows[0]:,} rows of the replay, {each} bytes each (checkpoint.keep is {keep}, and one "
        f"more is there while it is written); the file system of {plan.run_directory!r} has "
        f"{_size(free)} left. {remedy} replay.capacity, set checkpoint.replay to false, or choose "
        "another `directory`."
    )


def checkpoints_bytes(folder: Path) -> int:
    """Bytes of all complete checkpoints in a folder that no other run has links to."""
    names = complete_names(folder)
    files = (path.stat() for name in names for path in (folder / name).iterdir())
    return sum(file.st_size for file in files if file.st_nlink == 1)


def _rows(plan: RunPlan) -> Iterator[int]:
    """Rows of the replay in each checkpoint that is on the disk at the end, newest first.

    Where the run has no limit on steps, its replay becomes full.
    """
    config = plan.config
    capacity, every = rows_per_log(plan) * config.envs, config.checkpoint.every_updates
    ratio, starts = config.scheduler.ratio, config.replay.learning_starts
    stop = config.stop
    limits = [stop.env_steps] if stop.env_steps is not None else []
    if stop.updates is not None:
        limits.append(starts + math.ceil(stop.updates / ratio))
    last = min(limits, default=None)
    for index in range(config.checkpoint.keep + 1 if every is not None else 1):
        env_steps = capacity if last is None else last - math.ceil(index * (every or 0) / ratio)
        if env_steps <= starts and index:
            return
        yield min(capacity, env_steps)


def _row_bytes(plan: RunPlan) -> int:
    """Bytes of a row in a checkpoint, its priority included."""
    row = ReplayLog.row_nbytes(replay_columns(plan))
    if said := later_columns(plan):
        row += SideColumns.nbytes(said, 1, 65) - SideColumns.nbytes(said, 1, 1) >> 6
    return row + (TREE_BYTES if plan.config.replay.prioritized else 0)


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**30:.1f} GiB" if nbytes >= 1 << 30 else f"{nbytes / 2**20:.1f} MiB"
