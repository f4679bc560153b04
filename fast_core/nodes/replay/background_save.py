"""Writes the replay's part of a checkpoint on a thread, so that drawing goes on beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fast_core.run.replay_files import ReplaySave
from fast_core.system.threads import yield_to_others


class BackgroundSave:
    """One `ReplaySave` on its way to the disk, on a thread of the lowest priority.

    Copying, writing and flushing release Python's lock, and a flush can take a tenth of a second:
    between two draws it would hold the learner up. On busy cores the thread gets what the others
    leave; if that is too little, so that rows might be lost, the node stops drawing, and then the
    others leave more.

    Concurrency: until `finished` the thread alone calls `ReplaySave.write` and `close`. The node
    reads `ReplaySave.margin` meanwhile, which can only be too small by what is being copied.
    """

    def __init__(self, save: ReplaySave, ring: Callable[[], None]) -> None:
        """Begin to write; ``ring`` is called at the end, on the thread."""
        self.save = save
        self._ring = ring
        self._error: BaseException | None = None
        self._given_up = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replay-save", daemon=True)
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether everything is on the disk.

        Raises:
            OSError: It could not be written, for instance because the disk is full.
        """
        if not self._done.is_set():
            return False
        self._thread.join()
        if self._error is not None:
            raise self._error
        return True

    def close(self) -> None:
        """Give up what is not written yet. May be called twice."""
        self._given_up.set()
        self._thread.join()
        self.save.close()

    def _run(self) -> None:
        yield_to_others()
        try:
            while not self._given_up.is_set() and self.save.write():
                pass
        except BaseException as error:
            self._error = error
        self._done.set()
        self._ring()
