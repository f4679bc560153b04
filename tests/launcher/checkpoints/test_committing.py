"""Checkpoints are committed beside the launcher's loop, one at a time."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fast_core.errors import CheckpointError
from fast_core.events import CheckpointWritten, CommitCheckpoint
from fast_core.launcher.checkpoints.committing import Committer
from fast_core.launcher.checkpoints.store import CheckpointStore, newest_valid

LONG_S = 60.0


class SlowStore:
    """A store whose commits last until they are let go, or given up."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.given_up = False
        self.thread: threading.Thread | None = None

    def commit(self, command: CommitCheckpoint, directory: str, check: Callable[[], None]) -> None:
        self.thread = threading.current_thread()
        self.begun.set()
        while not self.go.wait(0.001):
            try:
                check()
            except CheckpointError:
                self.given_up = True
                raise
        if self.error is not None:
            raise self.error


def commit_of(number: int) -> CommitCheckpoint:
    return CommitCheckpoint(number, 0, 0, ("rows",), b"state")


def is_readable(committer: Committer) -> bool:
    return bool(select.select([committer], [], [], 0)[0])


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def committer(store: SlowStore) -> Iterator[Committer]:
    made = Committer(store)  # type: ignore[arg-type]
    yield made
    made.close()


def waited(committer: Committer) -> bool:
    """Wait for the outcome; False if it does not come."""
    return bool(select.select([committer.fileno()], [], [], LONG_S)[0])


def test_whoever_asked_goes_on_until_the_outcome_wakes_him(
    committer: Committer, store: SlowStore
) -> None:
    assert not committer.busy, "nothing is being committed"
    for number in (3, 4):
        store.go.clear()
        committer.begin(commit_of(number), "")
        assert store.begun.wait(LONG_S)
        assert store.thread is not threading.current_thread()
        assert committer.take() is None and not is_readable(committer)
        store.go.set()
        assert waited(committer)
        assert select.select([committer], [], [], LONG_S)[0]
        assert committer.take() == CheckpointWritten(number)
        assert committer.take() is None and not is_readable(committer), "once is enough"


def test_failure_is_told_where_the_outcome_is_taken(committer: Committer, store: SlowStore) -> None:
    store.error = OSError(28, "No space left on device")
    store.go.set()
    committer.begin(commit_of(1), "")
    assert waited(committer)
    assert committer.take() == CheckpointWritten(1, "[Errno 28] No space left on device")
    assert committer.take() is None
    assert not committer.busy


def test_what_is_being_committed_is_given_up_at_the_end(store: SlowStore) -> None:
    committer = Committer(store)  # type: ignore[arg-type]
    committer.begin(commit_of(1), "")
    assert store.begun.wait(LONG_S)
    committer.close()
    assert store.given_up and store.thread is not None and not store.thread.is_alive()
    committer.close()


def test_real_checkpoint_given_up_while_it_is_read_back_does_not_count(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1, identity={})
    committer = Committer(store)
    for env_steps in (1, 2):
        directory = f"{tmp_path}/{env_steps:012d}.tmp"
        store.prepare(directory)
        (Path(directory) / "rows").write_bytes(b"rows" * 1000)
        command = CommitCheckpoint(env_steps, 0, env_steps, ("rows",), b"")
        if env_steps == 2:
            committer._given_up.set()
        committer.begin(command, directory)
        assert waited(committer)
        if env_steps == 1:
            assert committer.take() == CheckpointWritten(1)
    with pytest.raises(CheckpointError, match="the run ended while"):
        committer.take()
    committer.close()
    assert newest_valid(tmp_path)[1].env_steps == 1
