"""Commits checkpoints on a thread: reading gigabytes back must not make the launcher silent."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent.futures import Future

from fast_core.errors import CheckpointError
from fast_core.events import CheckpointWritten, CommitCheckpoint
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.system.threads import yield_to_others


class Committer:
    """Commits one checkpoint at a time.

    Not in a pool: those take nothing any more once the main thread has ended, and a run may go on
    in another one then.

    Concurrency: the thread alone touches the folder of checkpoints from `begin` until the outcome
    is there. Hashing and reading release Python's lock, so the caller's loop goes on meanwhile.
    """

    def __init__(self, store: CheckpointStore) -> None:
        """Nothing is being committed."""
        self._store = store
        self._thread: threading.Thread | None = None
        self._future: Future[object] | None = None
        self._number = 0
        self._pieces = 0
        self._given_up = threading.Event()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Readable once there is an outcome."""
        return self._wake

    def begin(self, command: CommitCheckpoint, directory: str) -> None:
        """Commit what the nodes wrote into ``directory``."""
        assert self._future is None
        self._pieces = 0
        self._number = command.checkpoint
        future: Future[object] = Future()
        self._future = future
        future.add_done_callback(lambda _: os.eventfd_write(self._wake, 1))
        work = (future, command, directory)
        self._thread = threading.Thread(target=self._commit, args=work, name="checkpoint")
        self._thread.start()

    def take(self) -> CheckpointWritten | None:
        """What became of the checkpoint that was being committed, None while that is open.

        Raises:
            CheckpointError: A part that a node reported is missing.
        """
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
        return CheckpointWritten(self._number)

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being committed, or its outcome has not been taken."""
        return self._future is not None

    @property
    def pieces(self) -> int:
        """How many pieces of the files have been read back for the one that is being committed."""
        return self._pieces

    def close(self) -> None:
        """Give up what is being committed. May be called twice."""
        self._given_up.set()
        if self._thread is not None:
            self._thread.join()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

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
