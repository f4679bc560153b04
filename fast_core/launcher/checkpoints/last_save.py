"""How long a run that was interrupted may take for its last checkpoint. Pure."""

from __future__ import annotations

from typing import NamedTuple

# An open round may take so many times what one took so far, on the average.
ROUNDS = 3.0
# A disk that stands still for longer is given up; a flush to a slow one takes seconds.
DISK_S = 10.0
TELL_EVERY_S = 5.0


class SavedSoFar(NamedTuple):
    """How far a checkpoint is.

    Attributes:
        nbytes: Bytes that the nodes have written.
        pieces: Pieces of them that were read back.
        committing: Whether every part is there, and the launcher is reading it back.
    """

    nbytes: int = 0
    pieces: int = 0
    committing: bool = False


class LastSave:
    """The limit on a last checkpoint: so long without progress.

    A replay may have gigabytes, so no limit on the whole would be right for every run. Time counts
    from the last round that was trained on, the last step on replay, or the last bytes that were
    written or read back; who does not want to wait interrupts once more.
    """

    def __init__(self, limit_s: float, round_s: float, now_s: float) -> None:
        """An interrupt came at the time ``now_s``.

        Args:
            limit_s: ``supervision.save_s``.
            round_s: How long rounds took; 0 where there was none.
            now_s: The time.
        """
        self._limit_s = max(limit_s, ROUNDS * round_s)
        self._moved_s = self._told_s = now_s
        self._last: tuple[SavedSoFar, int] | None = None

    def look(self, saved: SavedSoFar, steps: int, now_s: float) -> None:
        """Take how far it is.

        Args:
            saved: What is there of the checkpoint.
            steps: Rounds that were trained on, and steps taken by optimizers that learn from
                replay.
            now_s: The time.
        """
        if self._last not in (None, (saved, steps)):
            self._moved_s = now_s
        self._last = saved, steps

    @property
    def deadline_s(self) -> float:
        """When it is over, unless there is progress until then."""
        saved = SavedSoFar() if self._last is None else self._last[0]
        writing = saved.nbytes > 0 or saved.committing
        return self._moved_s + (max(self._limit_s, DISK_S) if writing else self._limit_s)

    def due_news(self, now_s: float) -> int | None:
        """Bytes written so far, if it is time to say so again."""
        if self._last is None or now_s < self._told_s + TELL_EVERY_S:
            return None
        self._told_s = now_s
        return self._last[0].nbytes
