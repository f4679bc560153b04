"""The replay's files in a checkpoint: rows, streamed while training goes on, and the rest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from fast_core.errors import CheckpointError
from fast_core.memory import LogRestore, LogSnapshot, ReplayLog
from fast_core.nodes.learner_file import load, save

STATE_FILE = "replay.msgpack"
FORMAT = 1
PIECE_BYTES = 1 << 20
FLUSH_BYTES = 16 << 20  # so that no single flush takes long


def rows_file(shard: int) -> str:
    """Name of the file with the rows of a shard."""
    return f"replay-{shard}.bin"


def holds_rows(directory: Path) -> bool:
    """Whether a checkpoint holds what was in the replay."""
    return (directory / rows_file(0)).exists()


class ReplaySave:
    """One part of a checkpoint on its way to the disk.

    What is written is what the logs held when it was made, whatever their writers do meanwhile
    (`LogSnapshot`).
    """

    def __init__(
        self, checkpoint: int, directory: Path, state: dict[str, object], logs: Sequence[ReplayLog]
    ) -> None:
        """Note the cut; ``logs`` whose rows are kept, none if they are not."""
        self.checkpoint = checkpoint
        self._snapshots = [LogSnapshot(log) for log in logs]
        self._stack, self._unflushed = ExitStack(), 0
        names = [rows_file(shard) for shard in range(len(logs))]
        self._open = [self._stack.enter_context((directory / name).open("wb")) for name in names]
        self._left = list(zip(self._open, self._snapshots, strict=True))
        self._path, self._state = directory / STATE_FILE, state
        self.files = (STATE_FILE, *names)

    @property
    def missing(self) -> int:
        """Rows that were overwritten before they were written down."""
        return sum(snapshot.missing for snapshot in self._snapshots)

    def write(self) -> bool:
        """Write a piece; whether anything is left."""
        for pair in tuple(self._left):  # in turn, so that no log is lapped while others are written
            file, snapshot = pair
            piece = snapshot.read(PIECE_BYTES)
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
            with path.open("rb") as file:
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
    return state


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
