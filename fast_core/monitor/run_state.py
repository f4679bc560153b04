"""How a run stands, found out from its directory alone: quickly, and while it trains too."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from fast_core.config.yaml_text import MOST_BYTES, read_bounded
from fast_core.messages.metrics import MetricsRow
from fast_core.monitor.checkpoint_files import complete_names
from fast_core.monitor.crash import WENT_ON
from fast_core.monitor.figures import cut
from fast_core.monitor.journal import SUMMARY, JournalEntry
from fast_core.monitor.run_directory import RunDirectory, may_look_into, named_as_run
from fast_core.monitor.run_lock import holder
from fast_core.system.decoding import JsonDecoder
from fast_core.system.regular_file import open_regular, read_regular

RETURN, TRAINING_RETURN = "eval/return_mean", "rollout/return_mean"
QUARANTINED = "eval/quarantined_share"
_TAIL_BYTES = 1 << 16
_MOST_BYTES = 1 << 24  # of metrics that are looked through for the best evaluation
_CAUSE = 300
_STANDING = 120

State = Literal["running", "finished", "failed", "interrupted"]

_entries = JsonDecoder(JournalEntry)
_rows = JsonDecoder(MetricsRow)


@dataclass(frozen=True, kw_only=True)
class RunState:
    """How a run stands.

    Attributes:
        path: Its directory.
        state: Interrupted is what was stopped or killed, and what never began to train.
        text: Why it ended, or its first cause.
        pid: The process that trains, while it is running.
        algorithm: Name of the algorithm; empty while it is unknown, as the next two.
        environment: Id of the environment.
        seed: The run's seed.
        began: When the directory was made, UTC.
        env_steps: Environment steps trained on.
        time_s: Seconds of training.
        best: Mean return of the best evaluation.
        last: Mean return of the last evaluation, or of training episodes where there is none.
        checkpoint: Name of the newest checkpoint, empty where there is none to resume from.
        comebacks: Times that it came back after the death of an optimizer, in its last part.
    """

    path: Path
    state: State
    text: str = ""
    pid: int | None = None
    algorithm: str = ""
    environment: str = ""
    seed: int | None = None
    began: datetime | None = None
    env_steps: int = 0
    time_s: float = 0.0
    best: float | None = None
    last: float | None = None
    checkpoint: str = ""
    comebacks: int = 0


def read_state(path: Path, most_bytes: int = _MOST_BYTES) -> RunState:
    """Find out how the run in a directory stands; no file that grows with it is read whole.

    ``most_bytes`` of its newest metrics are looked through.
    """
    run = RunDirectory(path)
    pid = holder(run.lock_file)
    end = None if pid is not None else _end(run.events)
    names = complete_names(run.checkpoints)
    state, text = _outcome(run, pid, end)
    algorithm, environment, seed = _identity(run.config)
    facts = {} if end is None else end.facts
    env_steps, summed = facts.get("env_steps"), facts.get("best_evaluation")
    comebacks = facts.get("comebacks")
    # With the best one on record the last one is all that is looked for, which is mostly near.
    near = min(most_bytes, _TAIL_BYTES) if isinstance(summed, int | float) else most_bytes
    row, last, best = _figures(run.metrics, near)
    if last is None and near < most_bytes:
        row, last, best = _figures(run.metrics, most_bytes)
    if last is None and row is not None:
        last = row.values.get(TRAINING_RETURN)
    return RunState(
        path=path,
        state=state,
        text=text,
        pid=pid,
        algorithm=algorithm,
        environment=environment,
        seed=seed,
        began=run.began,
        env_steps=env_steps if isinstance(env_steps, int) else row.env_steps if row else 0,
        time_s=row.time_s if row else 0.0,
        best=float(summed) if isinstance(summed, int | float) else best,
        last=last,
        checkpoint=names[-1] if names else "",
        comebacks=comebacks if isinstance(comebacks, int) else 0,
    )


def standing(run: RunDirectory) -> str:
    """How a run stands, in a few words."""
    state = read_state(run.path, _TAIL_BYTES)
    return cut(f"{state.state}: {state.text}" if state.text else state.state, _STANDING)


def no_checkpoint(run: RunDirectory) -> str:
    """What a run lacks that is to be gone on with; see `RunDirectory.open`.

    One that goes on lacks nothing: that it does is what is to be said.
    """
    if holder(run.lock_file) is not None or complete_names(run.checkpoints):
        return ""
    return f"no checkpoint ({standing(run)})"


def not_running(run: RunDirectory) -> str:
    """Likewise of a run that is to be asked for something."""
    return "" if holder(run.lock_file) is not None else f"no process ({standing(run)})"


def find_runs(folder: Path, depth: int = 4) -> Iterator[Path]:
    """Every run directory at and below a folder, in no order; what is in runs is not looked at."""
    if named_as_run(folder.absolute().name) or _renamed_run(os.fspath(folder)):
        yield folder
    else:
        yield from map(Path, _runs_below(os.fspath(folder), depth))


def _runs_below(folder: str, depth: int) -> Iterator[str]:
    others = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and may_look_into(entry.path):
                if named_as_run(entry.name) or _renamed_run(entry.path):
                    yield entry.path
                else:
                    others.append(entry.path)
    for path in others if depth > 1 else ():
        yield from _runs_below(path, depth - 1)


def _renamed_run(folder: str) -> bool:
    """Whether a folder of another name is a run that was copied or moved there."""
    return all(
        os.path.isfile(os.path.join(folder, name)) for name in ("events.jsonl", "config.yaml")
    )


def size_bytes(path: Path) -> int:
    """What a run takes on the disk; files that checkpoints share count once."""
    files = {}
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:  # it may be training
                continue
            files[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(files.values())


def _outcome(run: RunDirectory, pid: int | None, end: JournalEntry | None) -> tuple[State, str]:
    if pid is not None:
        return "running", f"process {pid}"
    if run.crash.exists() and not (cause := first_cause(run)).startswith(WENT_ON):
        return "failed", cause
    if end is None:
        killed = "it was killed" if run.events.exists() else "it never began to train"
        return "interrupted", killed
    outcome = end.facts.get("outcome") or end.why.partition(":")[0]
    why = end.why if end.what == SUMMARY else end.why.partition(": ")[2]
    if outcome == "finished":
        return "finished", why
    return ("failed" if outcome == "failed" else "interrupted"), why


def first_cause(run: RunDirectory) -> str:
    """The line of ``crash.txt`` that says what failed; it is the last one."""
    lines = _tail(run.crash).decode("utf-8", "replace").strip().splitlines()
    return cut(lines[-1].strip(), _CAUSE) if lines else "crash.txt is empty"


def _end(events: Path) -> JournalEntry | None:
    """The last end on record; None where training went on after it."""
    for line in reversed(_tail(events).splitlines()):
        try:
            entry = _entries.decode(line)
        except msgspec.DecodeError:
            continue
        if entry.what in ("start", "resume"):
            return None
        if entry.what in (SUMMARY, "end"):
            return entry
    return None


def _figures(
    metrics: Path, most_bytes: int
) -> tuple[MetricsRow | None, float | None, float | None]:
    """The last row, and the last and the best evaluation of the rows looked through."""
    newest: MetricsRow | None = None
    last: float | None = None
    best: float | None = None
    for line in reversed(_tail(metrics, most_bytes).splitlines()):
        evaluated = f'"{RETURN}"'.encode() in line
        if newest is not None and not evaluated:
            continue
        try:
            row = _rows.decode(line)
        except msgspec.DecodeError:
            continue
        newest = newest or row
        mean = row.values.get(RETURN)
        if mean is not None:
            last = mean if last is None else last
            if not row.values.get(QUARANTINED):
                best = mean if best is None else max(best, mean)
    return newest, last, best


def _identity(config: Path) -> tuple[str, str, int | None]:
    """Algorithm, environment and seed."""
    try:
        tree = parsed(read_regular(config, MOST_BYTES))
        return str(tree["algorithm"]["name"]), str(tree["environment"]["id"]), int(tree["seed"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, OverflowError):
        return "", "", None


def parsed(config: bytes) -> Any:
    """A run's configuration as plain values; whatever FastLoop wrote, any reader of YAML reads.

    Raises:
        yaml.YAMLError: It is no YAML, or too much.
    """
    # The parser in C, where there is one, is ten times as fast as that of configurations.
    return read_bounded(getattr(yaml, "CSafeLoader", yaml.SafeLoader)(config))[0]


def _tail(path: Path, most: int = _TAIL_BYTES) -> bytes:
    """The end of a file, from the beginning of a line on; nothing where it can't be read."""
    try:
        with open_regular(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - most))
            data = file.read(most)
    except OSError:
        return b""
    return data if size <= most else data.partition(b"\n")[2]
