"""The replay's part of a checkpoint is written beside the node's work, whole or with its error."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fast_core.nodes.replay.background_save import BackgroundSave


class Pieces:
    """Stands for a `ReplaySave` of so many pieces, each of which waits until it is let go."""

    def __init__(self, pieces: int, error: Exception | None = None) -> None:
        self.left, self.error, self.closed = pieces, error, 0
        self.go, self.began = threading.Event(), threading.Event()
        self.threads: set[str] = set()

    def write(self) -> bool:
        self.threads.add(threading.current_thread().name)
        self.began.set()
        self.go.wait(10)
        self.left -= 1
        if self.error is not None and not self.left:
            raise self.error
        return self.left > 0

    def close(self) -> None:
        self.closed += 1


def begin(pieces: Pieces) -> tuple[BackgroundSave, threading.Event]:
    rung = threading.Event()
    return BackgroundSave(pieces, rung.set), rung  # type: ignore[arg-type]


def test_caller_goes_on_while_pieces_are_written() -> None:
    pieces = Pieces(3)
    background, rung = begin(pieces)
    assert pieces.began.wait(10)
    assert not background.finished
    pieces.go.set()
    assert rung.wait(10)
    assert background.finished
    assert pieces.left == 0 and pieces.threads == {"replay-save"}


def test_error_of_the_disk_is_raised_where_the_end_is_asked_for() -> None:
    pieces = Pieces(2, OSError(28, "No space left on device"))
    pieces.go.set()
    background, rung = begin(pieces)
    assert rung.wait(10)
    with pytest.raises(OSError, match="No space"):
        _ = background.finished


def test_save_that_is_given_up_stops_after_its_piece_and_closes_its_files() -> None:
    pieces = Pieces(1_000_000)
    background, _ = begin(pieces)
    assert pieces.began.wait(10)
    pieces.go.set()
    background.close()
    background.close()
    assert pieces.left > 0 and pieces.closed == 2


def test_thread_gives_way_to_others(tmp_path: Path) -> None:
    pieces = Pieces(1)
    background, _ = begin(pieces)
    assert pieces.began.wait(10)
    stat = Path(f"/proc/self/task/{background._thread.native_id}/stat").read_text()
    nice = stat.rpartition(")")[2].split()[16]  # after "pid (name) state"; names may have spaces
    pieces.go.set()
    background.close()
    assert nice == "19"
