"""Checkpoints are committed beside the launcher's loop, one at a time."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fast_core.errors import CheckpointError
from fast_core.launcher.checkpoints.saving import Saving
from fast_core.launcher.checkpoints.store import CheckpointStore, newest_valid
from fast_core.messages import Failed, Save
from fast_core.messages.launching import CheckpointWritten, CommitCheckpoint

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


def is_readable(saving: Saving) -> bool:
    return bool(select.select([saving], [], [], 0)[0])


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def saving(store: SlowStore) -> Iterator[Saving]:
    made = Saving(store, print)  # type: ignore[arg-type]
    yield made
    made.close()


def waited(saving: Saving) -> bool:
    """Wait for the outcome; False if it does not come."""
    return bool(select.select([saving.fileno()], [], [], LONG_S)[0])


def test_whoever_asked_goes_on_until_the_outcome_wakes_him(
    saving: Saving, store: SlowStore
) -> None:
    assert not saving.busy, "nothing is being committed"
    for number in (3, 4):
        store.go.clear()
        saving.commit(commit_of(number))
        assert store.begun.wait(LONG_S)
        assert store.thread is not threading.current_thread()
        assert saving.take() is None and not is_readable(saving)
        store.go.set()
        assert waited(saving)
        assert select.select([saving], [], [], LONG_S)[0]
        assert saving.take() == CheckpointWritten(number)
        assert saving.take() is None and not is_readable(saving), "once is enough"


def test_failure_is_told_where_the_outcome_is_taken(saving: Saving, store: SlowStore) -> None:
    store.error = OSError(28, "No space left on device")
    store.go.set()
    saving.commit(commit_of(1))
    assert waited(saving)
    assert saving.take() == CheckpointWritten(1, "[Errno 28] No space left on device")
    assert saving.take() is None
    assert not saving.busy


def test_what_is_being_committed_is_given_up_at_the_end(store: SlowStore) -> None:
    saving = Saving(store, print)  # type: ignore[arg-type]
    saving.commit(commit_of(1))
    assert store.begun.wait(LONG_S)
    saving.close()
    assert store.given_up and store.thread is not None and not store.thread.is_alive()
    saving.close()


def test_real_checkpoint_given_up_while_it_is_read_back_does_not_count(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=1, identity={})
    saving = Saving(store, print)
    for env_steps in (1, 2):
        directory = f"{tmp_path}/{env_steps:012d}.tmp"
        saving.prepare(Save(env_steps, directory))
        (Path(directory) / "rows").write_bytes(b"rows" * 1000)
        command = CommitCheckpoint(env_steps, 0, env_steps, ("rows",), b"")
        if env_steps == 2:
            saving._given_up.set()
        saving.commit(command)
        assert waited(saving)
        if env_steps == 1:
            assert saving.take() == CheckpointWritten(1)
    given_up = saving.take()
    assert isinstance(given_up, Failed) and "the run ended while" in given_up.error
    saving.close()
    assert newest_valid(tmp_path)[1].env_steps == 1
