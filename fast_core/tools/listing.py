"""`fastloop list`: what runs there are and how they stand."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fast_core.errors import ConfigError
from fast_core.monitor.figures import (
    UNKNOWN,
    aligned,
    count,
    cut,
    duration,
    number,
    printable,
    times,
)
from fast_core.monitor.run_state import RunState, find_runs, read_state, size_bytes
from fast_core.system.surroundings import expanded, write_result

DEFAULT = Path("runs")
_TEXT = 60
_HEAD = ("run", "state", "algorithm", "environment", "seed", "env steps", "best", "age", "size", "")
_NEVER = datetime.min.replace(tzinfo=UTC)


def list_runs(folder: Path = DEFAULT) -> list[RunState]:
    """Every run at and below a folder, newest first.

    Raises:
        ConfigError: There is no such folder.
    """
    path = expanded(folder, "the folder")
    if not path.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r} of runs. Launch one, or give the folder that "
            "`directory` named."
        )
    states = [read_state(run) for run in find_runs(path)]
    return sorted(states, key=lambda run: (run.began or _NEVER, str(run.path)), reverse=True)


def show_runs(folder: Path = DEFAULT, *, as_json: bool = False) -> int:
    """Print them, as a table or as a JSON array; returns the exit status."""
    runs = list_runs(folder)
    if as_json:
        rows = [
            {**msgspec.to_builtins(run, enc_hook=str), "bytes": size_bytes(run.path)}
            for run in runs
        ]
        write_result(msgspec.json.format(msgspec.json.encode(rows)).decode())
    elif runs:
        cells = [_HEAD, *(_cells(run, expanded(folder, "the folder")) for run in runs)]
        write_result("\n".join(aligned(cells, range(4, 9))))
    else:
        write_result(f"no runs in {folder}")
    return 0


def _cells(run: RunState, folder: Path) -> tuple[str, ...]:
    name = str(run.path.relative_to(folder)) if run.path != folder else str(run.path)
    age = None if run.began is None else time.time() - run.began.timestamp()
    text = cut(run.text, _TEXT)
    if run.comebacks:
        text += f"; came back {times(run.comebacks)}"
    if run.state in ("failed", "interrupted"):
        text += "; can be resumed" if run.checkpoint else "; nothing to resume from"
    return (
        printable(name),
        run.state,
        printable(cut(run.algorithm, _TEXT)) or UNKNOWN,
        printable(cut(run.environment, _TEXT)) or UNKNOWN,
        UNKNOWN if run.seed is None else cut(str(run.seed), _TEXT),
        count(run.env_steps),
        number(run.best),
        duration(age),
        _size(size_bytes(run.path)),
        printable(text),
    )


def _size(nbytes: int) -> str:
    for power, unit in ((30, "GiB"), (20, "MiB")):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.1f} {unit}"
    return f"{nbytes / 1024:.0f} KiB"
