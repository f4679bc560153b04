"""The checkpoint that is being written, from its directory to its commit."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable

from fast_core.errors import CheckpointError
from fast_core.events import CheckpointWritten, CommitCheckpoint, Failed, Save
from fast_core.launcher.checkpoints.committing import Committer
from fast_core.launcher.checkpoints.last_save import SavedSoFar
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.monitor.figures import more_digits
from fast_core.system.text import error_text, traceback_text


class Saving:
    """Makes the directory, commits it in a thread, and removes what came to nothing.

    Attributes:
        directory: That of the checkpoint that is being written; empty without one.
    """

    def __init__(self, store: CheckpointStore, report: Callable[[str], None]) -> None:
        """``report`` is called with a sentence."""
        self.directory = ""
        self._store, self._committer, self._report = store, Committer(store), report
        self._unsaved = 0

    def prepare(self, command: Save) -> str:
        """Make the directory of a checkpoint if it is not there; returns why it can't be."""
        if self.directory != command.directory:
            try:
                self._store.prepare(command.directory)
            except OSError as error:
                return str(error)
            self.directory = command.directory
        return ""

    def commit(self, command: CommitCheckpoint) -> None:
        """Begin to commit what nodes have written."""
        self._committer.begin(command, self.directory)

    def take(self) -> CheckpointWritten | Failed | None:
        """What came of a commit, once it is over."""
        try:
            written = self._committer.take()
        except CheckpointError as error:
            text, told = error_text(error), traceback_text(error)
            return Failed("launcher", "writing a checkpoint", text, told, {})
        if written is not None and not written.error:
            self.directory, self._unsaved = "", 0
        return written

    def abandon(self, error: str) -> None:
        """A full disk costs a checkpoint, not the run: say so, and ever more rarely again."""
        self.remove_partial()
        self._unsaved += 1
        if more_digits(self._unsaved - 1, self._unsaved):
            count = "" if self._unsaved == 1 else f", {self._unsaved} in a row"
            self._report(
                f"a checkpoint could not be written{count}: {error}; those before it are kept, "
                "training goes on, and the next one is tried when it is due"
            )

    def remove_partial(self) -> None:
        """Remove what there is of a checkpoint that is not committed."""
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = ""

    def so_far(self) -> SavedSoFar:
        """How far the checkpoint is that is being written."""
        nbytes = 0
        if self.directory:
            with contextlib.suppress(OSError), os.scandir(self.directory) as files:
                nbytes = sum(file.stat().st_size for file in files)
        return SavedSoFar(nbytes, self._committer.pieces, self._committer.busy)

    @property
    def busy(self) -> bool:
        """Whether a commit goes on."""
        return self._committer.busy

    def fileno(self) -> int:
        """Readable once a commit is over."""
        return self._committer.fileno()

    def close(self) -> None:
        """Wait for a commit; what is there of an unfinished checkpoint goes."""
        self._committer.close()
        self.remove_partial()
