"""The checkpoint that is being written, from its directory to its commit.

It is committed on a thread: reading gigabytes back must not make the launcher silent.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future

from fast_core.errors import CheckpointError
from fast_core.launcher.checkpoints.last_save import SavedSoFar
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.messages import Failed, Save
from fast_core.messages.launching import CheckpointWritten, CommitCheckpoint
from fast_core.monitor.figures import more_digits
from fast_core.system.text import error_text, traceback_text
from fast_core.system.threads import yield_to_others


class Saving:
    """Makes the directory, commits it in a thread, and removes what came to nothing.

    Not in a pool: those take nothing any more once the main thread has ended, and a run may go on
    in another one then.

    Concurrency: the thread alone touches the folder of checkpoints from `commit` until the outcome
    is there. Hashing and reading release Python's lock, so the caller's loop goes on meanwhile.

    Attributes:
        directory: That of the checkpoint that is being written; empty without one.
    """

    def __init__(self, store: CheckpointStore, report: Callable[[str], None]) -> None:
        """``report`` is called with a sentence."""
        self.directory = ""
        self._store, self._report = store, report
        self._unsaved = 0
        self._thread: threading.Thread | None = None
        self._future: Future[object] | None = None
        self._number = self._pieces = 0
        self._given_up = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

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
        assert self._future is None
        self._number, self._pieces = command.checkpoint, 0
        future: Future[object] = Future()
        self._future = future
        future.add_done_callback(lambda _: os.eventfd_write(self._wake, 1))
        work = (future, command, self.directory)
        self._thread = threading.Thread(target=self._commit, args=work, name="checkpoint")
        self._thread.start()

    def _commit(self, future: Future[object], command: CommitCheckpoint, directory: str) -> None:
        yield_to_others()
        try:
            future.set_result(self._store.commit(command, directory, self._check))
        except BaseException as error:  # whoever takes the outcome gets it
            future.set_exception(error)

    def _check(self) -> None:
        self._pieces += 1  # by the thread alone while it commits
        if self._given_up.is_set():
            raise CheckpointError("the run ended while this checkpoint was being committed")

    def take(self) -> CheckpointWritten | Failed | None:
        """What came of a commit, once it is over; a part that a node reported may be missing."""
        future = self._future
        if future is None or not future.done():
            return None
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        self._future = None
        try:
            future.result()
        except OSError as error:
            return CheckpointWritten(self._number, str(error))
        except CheckpointError as error:
            text, told = error_text(error), traceback_text(error)
            return Failed("launcher", "writing a checkpoint", text, told, {})
        self.directory, self._unsaved = "", 0
        return CheckpointWritten(self._number)

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
        return SavedSoFar(nbytes, self._pieces, self.busy)

    @property
    def busy(self) -> bool:
        """Whether a commit goes on, or its outcome has not been taken."""
        return self._future is not None

    def fileno(self) -> int:
        """Readable once a commit is over."""
        return self._wake

    def close(self) -> None:
        """Give up a commit; what is there of an unfinished checkpoint goes. May be called twice."""
        self._given_up.set()
        if self._thread is not None:
            self._thread.join()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1
        self.remove_partial()
