"""The replay's part of a checkpoint: what is written, in which order, and what is read back."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fast_core.errors import CheckpointError, SegmentError
from fast_core.memory import StatsColumn
from fast_core.messages import Save, Saved
from fast_core.nodes.node import NodeState
from fast_core.run import replay_files
from fast_core.run.replay_files import (
    STATE_FILE,
    KeptRows,
    ReplaySave,
    holds_rows,
    restore_rows,
    restore_state,
)
from fast_core.system.state_file import load
from tests.nodes.replay_stage import ENVS, SHARDS, ReplayStage, replay_config
from tests.nodes.stage import drain


@pytest.fixture
def stage(tmp_path: Path) -> ReplayStage:
    return ReplayStage.make(tmp_path / "run", replay_config(replay={"capacity": 64}))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_files, "PIECE_BYTES", 200)


def written(directory: Path) -> list[int]:
    return [(directory / f"replay-{shard}.bin").stat().st_size for shard in range(SHARDS)]


@pytest.mark.usefixtures("small_pieces")
def test_shards_are_written_in_turn(
    stage: ReplayStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No shard waits for another, or its oldest rows could be overwritten meanwhile."""
    monkeypatch.setattr(replay_files, "FLUSH_BYTES", 1)
    stage.collect(16)
    save = ReplaySave(1, tmp_path, {}, stage.logs)
    pieces = 0
    while save.write():
        pieces += 1
        sizes = written(tmp_path)
        assert abs(sizes[0] - sizes[1]) <= 200
    assert pieces > 10
    assert save.missing == 0


@pytest.mark.usefixtures("small_pieces")
def test_state_is_written_after_all_rows(stage: ReplayStage, tmp_path: Path) -> None:
    stage.collect(4)
    save = ReplaySave(1, tmp_path, {"answers": [1]}, stage.logs)
    assert save.files == (STATE_FILE, "replay-0.bin", "replay-1.bin")
    while save.write():
        assert not (tmp_path / STATE_FILE).exists()
    state = restore_state(tmp_path)
    kept = msgspec.convert(state.pop("rows"), KeptRows)
    log = stage.logs[0]
    assert kept == KeptRows(2, log.envs, log.capacity, log.fields)
    assert state == {"format": 1, "answers": [1]}


def test_checkpoint_holds_rows_or_not(stage: ReplayStage, tmp_path: Path) -> None:
    save = ReplaySave(1, tmp_path, {}, ())
    assert not save.write()
    assert not holds_rows(tmp_path)
    save = ReplaySave(1, tmp_path, {}, stage.logs)
    while save.write():
        pass
    assert holds_rows(tmp_path)


@pytest.mark.usefixtures("small_pieces")
def test_rows_that_were_overtaken_are_counted_and_reported(
    stage: ReplayStage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stage.collect(16)
    stage.stage.hub.send("replay-0", Save(1, str(tmp_path)))
    stage.node.step()
    stage.collect(1000)
    stage.drain()
    assert f"checkpoint 1 lacks {16 * SHARDS * ENVS} rows of the replay" in caplog.text


def test_missing_rows_are_named(stage: ReplayStage, tmp_path: Path) -> None:
    save = ReplaySave(1, tmp_path, {}, stage.logs)
    while save.write():
        pass
    (tmp_path / "replay-1.bin").unlink()
    with pytest.raises(CheckpointError, match=r"can't read the replay's rows in .*replay-1\.bin"):
        restore_rows(tmp_path, stage.logs)


def test_rows_cut_short_are_refused(stage: ReplayStage, tmp_path: Path) -> None:
    stage.collect(4)
    save = ReplaySave(1, tmp_path / "run", {}, stage.logs)
    while save.write():
        pass
    path = tmp_path / "run" / "replay-1.bin"
    path.write_bytes(path.read_bytes()[:-30])
    other = ReplayStage.make(tmp_path / "other", replay_config(replay={"capacity": 64}))
    with pytest.raises(SegmentError):
        restore_rows(tmp_path / "run", other.logs)


def test_files_are_closed_twice_without_harm(stage: ReplayStage, tmp_path: Path) -> None:
    save = ReplaySave(1, tmp_path, {}, stage.logs)
    save.close()
    save.close()


def test_arrays_of_the_tree_have_files_of_their_own(
    stage: ReplayStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written in pieces too: a tree of many leaves is as large as the rows."""
    monkeypatch.setattr(replay_files, "PIECE_BYTES", 48)
    priorities, owners = np.arange(8.0), np.arange(8, dtype=np.uint32)
    tree = {"priorities": priorities, "owners": owners, "refused": [1, 2], "stream": [3, 4, 5]}
    save = ReplaySave(1, tmp_path, {"tree": dict(tree)}, ())
    assert save.files == (STATE_FILE, "replay-priorities.bin", "replay-owners.bin")
    pieces = 0
    while save.write():
        pieces += 1
    assert pieces == 3
    assert load(tmp_path / STATE_FILE)["tree"] == {"refused": [1, 2], "stream": [3, 4, 5]}
    restored = restore_state(tmp_path)["tree"]
    assert isinstance(restored, dict)
    np.testing.assert_array_equal(restored["priorities"], priorities)
    np.testing.assert_array_equal(restored["owners"], owners)
    (tmp_path / "replay-owners.bin").unlink()
    with pytest.raises(CheckpointError, match=r"can't read the priorities in .*owners\.bin"):
        restore_state(tmp_path)


def test_processes_draw_while_the_rows_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    write = ReplaySave.write
    monkeypatch.setattr(ReplaySave, "write", lambda save: go.wait(10) and write(save))
    config = replay_config(replay={"capacity": 64}, mode="process")
    stage = ReplayStage.make(tmp_path / "run", config)
    stage.collect(8)
    stage.stage.hub.send("replay-0", Save(1, str(tmp_path)))
    drain(stage.node)
    stage.grant(0, 1)
    drain(stage.node)
    assert stage.ends[0].next() is not None, "drawn, although nothing could be written yet"
    words = stage.node.context.stats.words
    assert words[StatsColumn.STATE] == NodeState.WRITING, "which no limit cuts short"
    go.set()
    stage.drain()
    assert words[StatsColumn.STATE] == NodeState.WAITING
    assert Saved("replay-0", 1, (STATE_FILE, "replay-0.bin", "replay-1.bin")) in (
        stage.stage.events()
    )
