"""People can look into the replay of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.config import CheckpointConfig
from fast_core.config import file as config_file
from fast_core.errors import CheckpointError
from fast_core.launcher.checkpoints.store import CheckpointStore
from fast_core.memory import log_rows
from fast_core.messages import Save, Saved
from fast_core.messages.launching import CommitCheckpoint
from fast_core.monitor.run_directory import RunDirectory
from fast_core.tools.replay_view import show_replay
from tests.memory.replay_model import highest
from tests.nodes.replay_stage import ENVS, SHARDS, ReplayStage, replay_config

CAPACITY = 10  # rows of each environment
Show = Callable[..., dict[str, Any]]


def saved_run(folder: Path, **changes: Any) -> tuple[RunDirectory, ReplayStage]:
    """Thirteen steps of each environment with rewards 0 to 12 and the row's number observed.

    An episode ends with each sixth step, which takes a row for the final observation.
    """
    replay = {"capacity": CAPACITY * SHARDS * ENVS, "prioritized": True}
    config = msgspec.structs.replace(replay_config(replay=replay), **changes)
    run = RunDirectory.create(str(folder), "made", datetime(2025, 1, 1))
    stage = ReplayStage.make(run.path, config)
    run.write_config(config_file.dumps(stage.stage.plan.config))
    for shard, log in enumerate(stage.logs):
        for step in range(13):
            obs = np.full((ENVS, 4), shard, np.float32)
            ends = np.full(ENVS, step % 6 == 5)
            cut = ends & (shard == 1)
            log.append(
                obs, np.full(ENVS, step % 2), np.full(ENVS, step, np.float32), ends & ~cut, cut, obs
            )
    stage.grant(0, 3)
    for error in (0.5, 2.0, 1.0):
        stage.drain()
        assert stage.answer(error)
    stage.drain()
    store = CheckpointStore(run.checkpoints, keep=9, identity={})
    partial = run.checkpoints / "000000000052.tmp"
    store.prepare(str(partial))
    stage.stage.events()
    stage.node.handle(Save(1, str(partial)))
    stage.drain()
    (files,) = [event.files for event in stage.stage.events() if isinstance(event, Saved)]
    store.commit(CommitCheckpoint(1, 3, 52, files, b""), str(partial))
    return run, stage


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    def shown(*arguments: Any) -> dict[str, Any]:
        assert show_replay(*arguments) == 0
        return dict(json.loads(capsys.readouterr().out))

    return shown


@pytest.mark.parametrize("piece_bytes", [1, 70, 1 << 20])
def test_everything_that_is_there_is_counted(
    tmp_path: Path, show: Show, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_rows, "PIECE_BYTES", piece_bytes)
    run, _ = saved_run(tmp_path)
    found = show(run.path)
    # Of 15 rows the last ten are there: step 5, an end, steps 6 to 11, an end, and step 12.
    rewards = [5, 6, 7, 8, 9, 10, 11, 12]
    assert found["env_steps"] == 52 and found["checkpoint"] == "000000000052"
    assert found["rows_of_environments"] == [CAPACITY] * SHARDS * ENVS
    assert found["rows"] == found["capacity"] == CAPACITY * SHARDS * ENVS
    assert found["steps"] == len(rewards) * SHARDS * ENVS
    assert found["reward_mean"] == np.mean(rewards)
    assert (found["reward_min"], found["reward_max"]) == (5, 12)
    assert found["terminated"] == found["truncated"] == 2 * ENVS
    assert found["whole_episodes"] == SHARDS * ENVS
    assert found["return_mean"] == found["return_min"] == sum(range(6, 12))


def test_rows_of_the_highest_priority_are_those_of_the_tree(tmp_path: Path, show: Show) -> None:
    run, stage = saved_run(tmp_path)
    replay, everything = stage.node.replay, CAPACITY * SHARDS * ENVS
    assert replay.tree is not None
    ranked = highest(replay.reader, replay.tree, everything)
    found = show(run.path, "000000000052", everything)
    assert [(row["environment"], row["row"]) for row in found["highest"]] == [
        (row.log, row.row) for row in ranked
    ]
    assert [row["priority"] for row in found["highest"]] == [row.priority for row in ranked]
    assert found["priorities"]["max"] == ranked[0].priority
    for row in found["highest"]:
        step = row["row"] - (row["row"] > 6) - (row["row"] > 13)
        assert row["reward"] == step and row["action"] == [step % 2]
        assert row["age_env_steps"] == (14 - row["row"]) * SHARDS * ENVS
        assert row["terminated"] is (step % 6 == 5 and row["environment"] < ENVS)
    assert len(show(run.path, "newest", 2)["highest"]) == 2


def test_checkpoint_without_a_replay_is_told(tmp_path: Path) -> None:
    run, _ = saved_run(tmp_path, checkpoint=CheckpointConfig(replay=False))
    with pytest.raises(CheckpointError, match=r"holds no replay: checkpoint\.replay was false"):
        show_replay(run.path)
    with pytest.raises(CheckpointError, match=r"no checkpoint '7'\. It has 000000000052\."):
        show_replay(run.path, "7")


def test_run_without_checkpoints_is_told(tmp_path: Path) -> None:
    run = RunDirectory.create(str(tmp_path), "made", datetime(2025, 1, 1))
    run.write_config(config_file.dumps(replay_config()))
    with pytest.raises(CheckpointError, match="has none yet"):
        show_replay(run.path)
