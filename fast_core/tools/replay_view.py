"""What is in the replay of a checkpoint: what `fastloop replay` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.errors import CheckpointError
from fast_core.memory.log_rows import BEGINS, BITS, ORIGIN, TERMINATED, TRUNCATED, Rows, rows_of
from fast_core.monitor.checkpoint_files import check, complete_names
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import standing
from fast_core.run.replay_files import STATE_FILE, KeptRows, holds_rows, restore_state, rows_file
from fast_core.system.regular_file import open_regular
from fast_core.system.surroundings import write_result
from fast_core.system.text import error_text

Array = NDArray[np.generic]
NEWEST = "newest"
SHOWN = 16  # elements of an action


def show_replay(path: Path, checkpoint: str | None = None, top: int = 10) -> int:
    """Print what the replay of a checkpoint holds as one JSON object.

    Rows are read one after the other, so little memory is needed. The run may be training, and
    nothing that it names is imported.

    Args:
        path: Run directory, or the folder of a name's runs.
        checkpoint: ``newest`` or a name under ``checkpoints``; None takes the newest.
        top: How many rows of the highest priority are shown, where there are priorities.

    Returns:
        The exit status.

    Raises:
        FastLoopError: There is no such checkpoint, it holds no replay, or it is damaged.
    """
    run = RunDirectory.open(path, lambda run: _lacks(run, checkpoint))
    directory = _choose(run, checkpoint)
    manifest = check(directory, only=(STATE_FILE,))
    state = restore_state(directory)
    if "rows" not in state:
        raise CheckpointError(
            f"checkpoint {directory.name} of {str(run.path)!r} was written by a FastLoop of before "
            "and doesn't say what its rows are made of. Those that the run writes when it goes on "
            "do: `fastloop resume`"
        )
    try:
        contents = _contents(directory, state, top)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"the replay in {str(directory)!r} is damaged ({error_text(error)})"
        ) from error
    head = {"run": str(run.path), "checkpoint": directory.name, "env_steps": manifest.env_steps}
    write_result(json.dumps({**head, **contents}, indent=2))
    return 0


def _contents(directory: Path, state: dict[str, object], top: int) -> dict[str, object]:
    kept = msgspec.convert(state["rows"], KeptRows)
    seen = cast("dict[str, Array]", state["reader"])["positions"][:, 0].astype(np.int64)
    if len(seen) != kept.shards * kept.envs:
        raise ValueError(f"{len(seen)} positions of {kept.shards} shards of {kept.envs}")
    ranked = highest(state, seen, top)
    figures = ReplayFigures(len(seen), {(row.log, row.row) for row in ranked})
    for shard in range(kept.shards):
        _read(kept, directory / rows_file(shard), shard, figures)
    return {
        "capacity": kept.capacity * len(seen),
        **figures.result(),
        "priorities": _priorities(state),
        "highest": [_row(row, figures) for row in ranked],
    }


class ReplayFigures:
    """Counts rows as they pass.

    Attributes:
        wanted: Rows to be shown, by environment and number, as soon as they have passed.
        newest: Number of the newest row of each environment.
    """

    def __init__(self, envs: int, wanted: set[tuple[int, int]]) -> None:
        """``envs`` of all shards; ``wanted`` by environment and number of the row."""
        self.wanted: dict[tuple[int, int], np.void] = {}
        self._missing = wanted
        self.newest = [-1] * envs
        self._rows = [0] * envs
        self._begun: list[float | None] = [None] * envs  # return of the open episode so far
        self._ends = {TERMINATED: 0, TRUNCATED: 0}
        self._returns: list[float] = []
        self._rewards = [0.0, np.inf, -np.inf]
        self._steps = 0

    def take(self, env: int, piece: Rows) -> None:
        """Rows of an environment, in order."""
        bits, reward = piece.rows[BITS], piece.rows["reward"].astype(np.float64)
        step = (bits & ORIGIN) > 0
        self._rows[env] += len(bits)
        if step.any():
            self._steps += int(step.sum())
            total, least, greatest = self._rewards
            steps = reward[step]
            self._rewards = [
                total + steps.sum(),
                min(least, steps.min()),
                max(greatest, steps.max()),
            ]
        for bit in self._ends:
            self._ends[bit] += int(((bits & bit) > 0).sum())
        self._follow(env, bits, np.concatenate([[0.0], np.cumsum(np.where(step, reward, 0.0))]))
        self.newest[env] = last = piece.first + len(bits) - 1
        passed = (key for key in self._missing if key[0] == env)
        for key in [key for key in passed if piece.first <= key[1] <= last]:
            self._missing.discard(key)
            self.wanted[key] = piece.rows[key[1] - piece.first].copy()

    def _follow(self, env: int, bits: NDArray[np.uint8], sums: Array) -> None:
        """Returns of episodes that are there from their beginning to their end."""
        open_return, at = self._begun[env], 0
        for index in np.flatnonzero(bits & (BEGINS | TERMINATED | TRUNCATED)):
            if bits[index] & BEGINS:
                open_return, at = 0.0, int(index)
            if bits[index] & (TERMINATED | TRUNCATED):
                if open_return is not None:
                    self._returns.append(open_return + float(sums[index + 1] - sums[at]))
                open_return = None
        if open_return is not None:
            open_return += float(sums[-1] - sums[at])
        self._begun[env] = open_return

    def result(self) -> dict[str, object]:
        """Everything counted."""
        total, least, greatest = self._rewards
        some, returns = self._steps > 0, self._returns
        return {
            "rows": sum(self._rows),
            "rows_of_environments": self._rows,
            "steps": self._steps,
            "terminated": self._ends[TERMINATED],
            "truncated": self._ends[TRUNCATED],
            "reward_mean": total / self._steps if some else None,
            "reward_min": least if some else None,
            "reward_max": greatest if some else None,
            "whole_episodes": len(returns),
            "return_mean": float(np.mean(returns)) if returns else None,
            "return_min": min(returns, default=None),
            "return_max": max(returns, default=None),
        }


def _lacks(run: RunDirectory, checkpoint: str | None) -> str:
    """What it lacks to be looked at; see `RunDirectory.open`."""
    try:
        _choose(run, checkpoint)
    except CheckpointError:
        return f"no such replay ({standing(run)})"
    return ""


def _choose(run: RunDirectory, checkpoint: str | None) -> Path:
    names = complete_names(run.checkpoints)
    name = Path(checkpoint).name if checkpoint not in (None, NEWEST) else (names or [""])[-1]
    if name not in names:
        which = f"no checkpoint {name!r}. It has {', '.join(names)}" if names else "none yet"
        raise CheckpointError(f"a replay is read from a checkpoint; {str(run.path)!r} has {which}.")
    if not holds_rows(run.checkpoints / name):
        raise CheckpointError(
            f"checkpoint {name} of {str(run.path)!r} holds no replay: checkpoint.replay was false, "
            "or its algorithm learns from rollouts"
        )
    return run.checkpoints / name


def _read(kept: KeptRows, path: Path, shard: int, figures: ReplayFigures) -> None:
    try:
        with open_regular(path) as file:
            for piece in rows_of(file, kept.columns, kept.envs):
                figures.take(shard * kept.envs + piece.env, piece)
    except OSError as error:
        raise CheckpointError(f"can't read the replay's rows in {path}: {error}") from error


class RankedRow(NamedTuple):
    """A row of a log, and its priority."""

    log: int
    row: int
    priority: float


def highest(state: dict[str, object], seen: Array, top: int) -> list[RankedRow]:
    """The rows of the highest priority, highest first.

    ``state`` has the tree's, and ``seen`` how many rows of each log that has followed.
    """
    if not isinstance(tree := state["tree"], dict):
        return []
    priorities: NDArray[np.float64] = tree["priorities"]
    leaves = np.argsort(-priorities, kind="stable")[:top]
    capacity, found = len(priorities) // len(seen), []
    for leaf in leaves[priorities[leaves] > 0.0].tolist():
        log, place = divmod(leaf, capacity)
        newest = int(seen[log]) - 1
        row = newest - (newest - place) % capacity
        found.append(RankedRow(log, row, float(priorities[leaf])))
    return found


def _priorities(state: dict[str, object]) -> dict[str, float] | None:
    if not isinstance(tree := state["tree"], dict):
        return None
    live = tree["priorities"][tree["priorities"] > 0.0]
    if not len(live):
        return None
    return {"mean": float(live.mean()), "min": float(live.min()), "max": float(live.max())}


def _row(row: RankedRow, figures: ReplayFigures) -> dict[str, object]:
    newest = figures.newest
    shown: dict[str, object] = {
        "environment": row.log,
        "row": row.row,
        "age_env_steps": (newest[row.log] - row.row) * len(newest),
        "priority": row.priority,
    }
    if (found := figures.wanted.get((row.log, row.row))) is not None:
        shown["action"] = np.ravel(found["action"])[:SHOWN].tolist()
        shown["reward"] = float(found["reward"])
        shown["terminated"] = bool(found[BITS] & TERMINATED)
    return shown
