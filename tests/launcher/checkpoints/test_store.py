"""Checkpoints are whole or do not count."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from fast_core.errors import CheckpointError, OtherRun
from fast_core.launcher.checkpoints.store import (
    SCHEDULER_FILE,
    CheckpointStore,
    check_identity,
    copy_newest,
    newest_valid,
)
from fast_core.messages.launching import CommitCheckpoint
from fast_core.monitor import checkpoint_files
from fast_core.monitor.checkpoint_files import MANIFEST, check, complete_names

IDENTITY = {"seed": "0", "rollout": '{"shards":2}'}


def commit(store: CheckpointStore, env_steps: int, data: bytes = b"learner") -> Path:
    directory = f"{store.folder}/{env_steps:012d}.tmp"
    store.prepare(directory)
    (Path(directory) / "learner").write_bytes(data)
    command = CommitCheckpoint(1, env_steps // 10, env_steps, ("learner",), b"scheduler")
    return store.commit(command, directory)


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path, keep=2, identity=IDENTITY)


def test_committed_checkpoint_is_whole_and_has_its_name(store: CheckpointStore) -> None:
    path = commit(store, 640)
    assert path == store.folder / "000000000640"
    manifest = check(path)
    assert (manifest.env_steps, manifest.version) == (640, 64)
    assert set(manifest.files) == {"learner", SCHEDULER_FILE}
    assert manifest.identity == IDENTITY
    assert [entry.name for entry in store.folder.iterdir()] == ["000000000640"]


def test_only_the_newest_are_kept(store: CheckpointStore) -> None:
    for steps in (5, 10, 100, 1000):
        commit(store, steps)
    assert complete_names(store.folder) == ["000000000100", "000000001000"]


def test_newest_is_by_number_and_not_by_name(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=9, identity=IDENTITY)
    commit(store, 9 * 10**12)
    commit(store, 10**13)
    assert newest_valid(tmp_path)[0].name == str(10**13)


def test_missing_part_is_an_error_and_no_checkpoint(store: CheckpointStore) -> None:
    directory = f"{store.folder}/000000000001.tmp"
    store.prepare(directory)
    with pytest.raises(CheckpointError, match=r"a part of checkpoint .* is missing.*learner"):
        store.commit(CommitCheckpoint(1, 1, 1, ("learner",), b""), directory)
    assert complete_names(store.folder) == []


def test_what_an_earlier_attempt_left_is_not_mixed_in(store: CheckpointStore) -> None:
    directory = Path(f"{store.folder}/000000000001.tmp")
    directory.mkdir()
    (directory / "stray").write_text("x")
    assert not (commit(store, 1) / "stray").exists()


def test_abandoned_parts_are_removed_with_the_next_checkpoint(store: CheckpointStore) -> None:
    (store.folder / "000000000001.tmp").mkdir()
    commit(store, 2)
    assert [entry.name for entry in store.folder.iterdir()] == ["000000000002"]


def test_large_files_are_read_in_pieces_and_between_them_may_be_given_up(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_files, "_PIECE", 7)
    data = bytes(range(100))
    path = commit(store, 1, data)
    entry = check(path).files["learner"]
    assert (entry.nbytes, entry.sha256) == (100, hashlib.sha256(data).hexdigest())
    pieces: list[None] = []
    check(path, lambda: pieces.append(None))
    assert len(pieces) == 15 + 2  # and the scheduler's nine bytes

    def interrupt() -> None:
        pieces.pop()
        if not pieces:
            raise KeyboardInterrupt

    for read in (check, lambda path, stop: newest_valid(path.parent, stop)):
        pieces[:] = [None] * 4
        with pytest.raises(KeyboardInterrupt):
            read(path, interrupt)
    assert complete_names(store.folder) == [path.name], "it is not damaged"


def test_copy_that_is_interrupted_while_it_is_checked_is_no_damaged_one(
    store: CheckpointStore, tmp_path: Path
) -> None:
    commit(store, 1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_newest(store.folder, tmp_path / "copies", interrupt)


def test_files_that_do_not_matter_are_not_looked_at(store: CheckpointStore) -> None:
    path = commit(store, 1)
    (path / SCHEDULER_FILE).unlink()
    assert check(path, only=("learner",)).env_steps == 1
    (path / "learner").write_bytes(b"")
    with pytest.raises(CheckpointError, match="learner has 0 bytes"):
        check(path, only=("learner",))


@pytest.mark.parametrize("name", ["learner", SCHEDULER_FILE, MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_damaged_checkpoint_is_set_aside_for_the_one_before(
    store: CheckpointStore, name: str, damage: str
) -> None:
    """CKPT-03."""
    older = commit(store, 1)
    newest = commit(store, 2)
    file = newest / name
    data = file.read_bytes()
    if damage == "cut":
        file.write_bytes(data[:-1])
    elif damage == "flipped":
        file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    else:
        file.unlink()
    path, manifest, notes = newest_valid(store.folder)
    assert path == older
    assert manifest.env_steps == 1
    if (damage, name) != ("missing", MANIFEST):  # without one it never was a checkpoint
        assert len(notes) == 1
        assert "000000000002" in notes[0]
        assert (store.folder / "000000000002.damaged").is_dir()
    assert newest_valid(store.folder)[2] == [], "the bad one is remembered"


def test_no_whole_checkpoint_is_an_error_with_reasons(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointError, match="none was written yet"):
        newest_valid(store.folder)
    (commit(store, 3) / "learner").write_bytes(b"")
    with pytest.raises(CheckpointError, match="learner has 0 bytes"):
        newest_valid(store.folder)


def test_unfinished_and_foreign_folders_are_no_checkpoints(store: CheckpointStore) -> None:
    (store.folder / "000000000009.tmp").mkdir()
    (store.folder / "000000000008").mkdir()
    (store.folder / "best-policy.msgpack").write_text("")
    assert complete_names(store.folder) == []
    assert complete_names(store.folder / "nowhere") == []


def test_checkpoint_of_another_format_is_refused(store: CheckpointStore) -> None:
    path = commit(store, 1)
    text = (path / MANIFEST).read_text().replace('"format": 1', '"format": 99')
    (path / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match="has format 99, this FastLoop reads 1"):
        check(path)


def test_run_of_another_identity_does_not_go_on(store: CheckpointStore) -> None:
    path = commit(store, 1)
    manifest = check(path)
    check_identity(manifest, IDENTITY, path, "'config.yaml'")
    words = r"seed must be as in the checkpoint.*000000000001' has 0, 'config\.yaml' 1"
    with pytest.raises(OtherRun, match=words):  # a wrong configuration, for the exit status
        check_identity(manifest, IDENTITY | {"seed": "1"}, path, "'config.yaml'")


@pytest.mark.parametrize(
    ("key", "without"), [("environment.wrappers", "[]"), ("algorithm.recurrent", '"none"')]
)
def test_checkpoint_from_before_there_was_a_key_goes_on_without(
    store: CheckpointStore, key: str, without: str
) -> None:
    path = commit(store, 1)
    manifest = check(path)
    check_identity(manifest, IDENTITY | {key: without}, path, "'config.yaml'")
    with pytest.raises(CheckpointError, match=f"{key} must be as in the checkpoint"):
        check_identity(manifest, IDENTITY | {key: "[1]"}, path, "x.yaml")
