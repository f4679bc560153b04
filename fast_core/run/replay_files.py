"""The replay's files in a checkpoint: rows, streamed while training goes on, and the rest."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from fast_core.algorithm.spec import Column
from fast_core.errors import CheckpointError
from fast_core.memory import LogRestore, LogSnapshot, ReplayLog
from fast_core.system.regular_file import open_regular
from fast_core.system.state_file import load, save

STATE_FILE = "replay.msgpack"
TREE: dict[str, str] = {"priorities": "float64", "owners": "uint32"}  # dtypes of its arrays
FORMAT = 1
PIECE_BYTES = 1 << 20  # of all files together
FLUSH_BYTES = 16 << 20  # so that no single flush takes long


def rows_file(shard: int) -> str:
    """Name of the file with the rows of a shard."""
    return f"replay-{shard}.bin"


def tree_file(array: str) -> str:
    """Name of the file with one of the arrays that a priority tree has for all its leaves."""
    return f"replay-{array}.bin"


def said_file(array: str) -> str:
    """Name of the file with one of the arrays of what the learner has said of rows."""
    return f"replay-side-{array}.bin"


def holds_rows(directory: Path) -> bool:
    """Whether a checkpoint holds what was in the replay."""
    return (directory / rows_file(0)).exists()


class KeptRows(msgspec.Struct, frozen=True):
    """What the rows of a checkpoint are made of, to be looked at without the run's code.

    Attributes:
        shards: How many files of rows there are.
        envs: Environments of each.
        capacity: Rows of each environment that can be drawn.
        columns: What a row has.
    """

    shards: int
    envs: int
    capacity: int
    columns: tuple[Column, ...]


class ArrayBytes:
    """An array to be read as `LogSnapshot` is."""

    def __init__(self, array: NDArray[np.generic]) -> None:
        """``array`` is not changed any more."""
        self._bytes, self._at = array.data.cast("B"), 0

    def read(self, max_bytes: int) -> memoryview:
        """The next bytes, nothing at the end."""
        piece = self._bytes[self._at : self._at + max_bytes]
        self._at += len(piece)
        return piece


class ReplaySave:
    """One part of a checkpoint on its way to the disk.

    What is written is what the logs held when it was made, whatever their writers do meanwhile
    (`LogSnapshot`).
    """

    def __init__(
        self, checkpoint: int, directory: Path, state: dict[str, object], logs: Sequence[ReplayLog]
    ) -> None:
        """Note the cut; ``logs`` whose rows are kept, none if they are not.

        ``state`` is what `draws.Replay` says; the arrays of its tree and of what the learner has
        said are taken out of it, since they are large.
        """
        self.checkpoint = checkpoint
        self._snapshots = [LogSnapshot(log) for log in logs]
        sources: dict[str, LogSnapshot | ArrayBytes] = {}
        for shard, snapshot in enumerate(self._snapshots):
            sources[rows_file(shard)] = snapshot
        if isinstance(tree := state.get("tree"), dict):
            for name in TREE:
                sources[tree_file(name)] = ArrayBytes(tree.pop(name))
        if isinstance(said := state.get("side"), dict):
            sources |= {said_file(name): ArrayBytes(array) for name, array in said.items()}
            state = {**state, "side": list(said)}
        self._unflushed = 0
        with ExitStack() as stack:
            self._left = [
                (stack.enter_context((directory / name).open("wb")), source)
                for name, source in sources.items()
            ]
            self._stack = stack.pop_all()
        if logs:
            shape = len(logs), logs[0].envs, logs[0].capacity, logs[0].fields
            state = {**state, "rows": msgspec.to_builtins(KeptRows(*shape))}
        self._path, self._state = directory / STATE_FILE, state
        self.files = (STATE_FILE, *sources)

    @property
    def missing(self) -> int:
        """Rows that were overwritten before they were written down."""
        return sum(snapshot.missing for snapshot in self._snapshots)

    @property
    def margin(self) -> int:
        """How many rows each environment may still write before a row is lost."""
        return min((snapshot.margin for snapshot in self._snapshots), default=sys.maxsize)

    def write(self) -> bool:
        """Write a piece; whether anything is left."""
        size = PIECE_BYTES // max(1, len(self._left))
        for pair in tuple(self._left):  # in turn, so that no log is lapped while others are written
            file, source = pair
            piece = source.read(size)
            if not piece:
                _flush(file)
                self._left.remove(pair)
                continue
            file.write(piece)
            self._unflushed += len(piece)
        if self._unflushed >= FLUSH_BYTES:
            self._unflushed = 0
            for file, _ in self._left:
                _flush(file)
        if self._left:
            return True
        save(self._path, {"format": FORMAT, **self._state})
        self.close()
        return False

    def close(self) -> None:
        """Let go of the files; can be called twice."""
        with suppress(OSError):  # of what was given up; all else is flushed
            self._stack.close()


def restore_rows(directory: Path, logs: Sequence[ReplayLog]) -> None:
    """Put the rows of a checkpoint back, before anybody reads or writes the logs.

    Raises:
        CheckpointError: A file is missing.
        SegmentError: It is damaged or of another run.
    """
    for shard, log in enumerate(logs):
        path = directory / rows_file(shard)
        try:
            with open_regular(path) as file:
                rows = LogRestore(log, file)
                while rows.read(PIECE_BYTES):
                    pass
        except OSError as error:
            raise CheckpointError(f"can't read the replay's rows in {path}: {error}") from error


def restore_state(directory: Path) -> dict[str, object]:
    """What `ReplaySave` was given beside the rows.

    Raises:
        CheckpointError: It is missing, damaged or of another format.
    """
    state = load(directory / STATE_FILE)
    if state.get("format") != FORMAT:
        raise CheckpointError(
            f"{directory / STATE_FILE} has format {state.get('format')!r}, this version reads "
            f"{FORMAT}; resume with the FastLoop version that wrote it"
        )
    if isinstance(tree := state.get("tree"), dict):
        for name, dtype in TREE.items():
            path = directory / tree_file(name)
            try:
                with open_regular(path) as file:
                    tree[name] = np.fromfile(file, np.dtype(dtype))
            except OSError as error:
                raise CheckpointError(f"can't read the priorities in {path}: {error}") from error
    if isinstance(names := state.get("side"), list):
        state["side"] = {name: _bytes_of(directory / said_file(str(name))) for name in names}
    return state


def _bytes_of(path: Path) -> NDArray[np.uint8]:
    try:
        with open_regular(path) as file:
            return np.fromfile(file, np.uint8)
    except OSError as error:
        raise CheckpointError(f"can't read what the learner said in {path}: {error}") from error


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
