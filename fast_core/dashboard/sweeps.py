"""Sweeps within a folder of runs: how many runs each is to have, and how far it is."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fast_core.config.yaml_text import MOST_BYTES
from fast_core.monitor.run_directory import SWEEP_FILE
from fast_core.monitor.run_lock import holder
from fast_core.monitor.run_state import parsed
from fast_core.system.regular_file import read_regular
from fast_core.system.text import encodable


class SweepState(msgspec.Struct, frozen=True):
    """How a sweep stands.

    Attributes:
        name: Its path below the folder that is watched, ``.`` for that folder itself.
        planned: Runs that it is to have; None where its file does not say.
        states: How many are in each state; of a run that was begun again the newest counts.
        waiting: How many were never begun.
        pid: The process that carries it out, None where none does.
    """

    name: str
    planned: int | None
    states: dict[str, int]
    waiting: int
    pid: int | None


@dataclass(frozen=True)
class Begun:
    """A run that may be of a sweep: its directory, seed, state and time."""

    path: Path
    seed: int | None
    state: str
    began: float


class Sweeps:
    """Finds the sweeps of a folder again and again; a file is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._planned: dict[tuple[Path, int, int], int | None] = {}

    def look(self, runs: Iterable[Begun]) -> tuple[SweepState, ...]:
        """How each stands, by name."""
        below: dict[str, list[Begun]] = {path: [] for path in self._folders()}
        inside = f"{self._folder}/"
        for run in runs:
            above = os.path.dirname(os.path.dirname(str(run.path)))  # <sweep>/<variant>/<run>
            if f"{above}/".startswith(inside):
                below.setdefault(above, []).append(run)
        found = (self._state(path, begun) for path, begun in sorted(below.items()))
        return tuple(state for state in found if state is not None)

    def _folders(self) -> Iterator[str]:
        """Where there may be one of which nothing has begun."""
        yield str(self._folder)
        try:
            with os.scandir(self._folder) as entries:
                yield from (e.path for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:
            return

    def _state(self, folder: str, begun: Iterable[Begun]) -> SweepState | None:
        try:
            file = os.stat(f"{folder}/{SWEEP_FILE}")
        except OSError:
            return None
        path = Path(folder)
        key = path, file.st_ino, file.st_mtime_ns
        if key not in self._planned:
            self._planned[key] = _planned(path / SWEEP_FILE)
        newest: dict[tuple[str, int | None], Begun] = {}
        for run in sorted(begun, key=lambda run: run.began):
            newest[run.path.parent.name, run.seed] = run
        planned, states = self._planned[key], Counter(run.state for run in newest.values())
        waiting = max(0, (planned or 0) - len(newest))
        name = encodable(path.relative_to(self._folder).as_posix())
        return SweepState(name, planned, dict(states), waiting, holder(path / "lock"))


def _planned(file: Path) -> int | None:
    """How many runs a sweep's file asks for, as `fastloop sweep` wrote it."""
    try:
        tree = parsed(read_regular(file, MOST_BYTES))
        seeds, variants = tree["seeds"], tree.get("variants") or (None,)
        count = len(seeds) if isinstance(seeds, list) else int(seeds)
        return count * len(variants) * math.prod(dict(_axes(tree.get("grid") or {})).values())
    except (OSError, yaml.YAMLError, ArithmeticError):
        return None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _axes(grid: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, int]]:
    """How many values each key has; of a key that is written in two ways the last one counts."""
    for name, value in grid.items():
        if isinstance(value, dict):
            yield from _axes(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", len(value)
