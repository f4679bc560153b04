"""A run whose checkpoints don't fit on the disk is refused before it begins."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from fast_core.config import CheckpointConfig, StopConfig
from fast_core.errors import ConfigError
from fast_core.launcher.checkpoints.disk_room import check_disk, checkpoints_bytes
from fast_core.run.plan import RunPlan
from tests.nodes.replay_stage import ENVS, SHARDS, replay_config
from tests.nodes.stage import make_config, make_run_plan

ROW = 4 * 4 + 8 + 4 + 1  # four float32, an int64, the reward, the flags
CAPACITY = 1000 * SHARDS * ENVS
FULL = ROW * CAPACITY


def plan(folder: Path, **changes: object) -> RunPlan:
    replay = {"capacity": CAPACITY, **changes.pop("replay", {})}  # type: ignore[dict-item]
    stop = changes.pop("stop", StopConfig(time_s=1e6))
    config = replay_config(replay=replay, stop=stop)
    return make_run_plan(folder, msgspec.structs.replace(config, **changes))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    usage = SimpleNamespace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    return usage


def needs(plan: RunPlan, disk: SimpleNamespace, nbytes: int) -> str:
    """Check that exactly so many bytes are enough; returns the message where they are not."""
    disk.free = nbytes
    check_disk(plan)
    disk.free = nbytes - 1
    with pytest.raises(ConfigError) as raised:
        check_disk(plan)
    check_disk(plan, there_bytes=1)
    return str(raised.value)


def test_each_kept_checkpoint_and_the_one_being_written_hold_the_replay(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    text = needs(plan(tmp_path), disk, 4 * FULL)
    assert "0.4 MiB of disk: 4 with up to 4,000 rows of the replay, 29 bytes each" in text
    assert "Lower checkpoint.keep to 2, or replay.capacity" in text
    one = plan(tmp_path, checkpoint=CheckpointConfig(keep=1))
    assert "left. Lower replay.capacity" in needs(one, disk, 2 * FULL)


def test_priorities_count(tmp_path: Path, disk: SimpleNamespace) -> None:
    needs(plan(tmp_path, replay={"prioritized": True}), disk, 4 * (FULL + 12 * CAPACITY))


@pytest.mark.parametrize(
    ("stop", "rows"),
    [
        (StopConfig(env_steps=2000), 2000 + 1500 + 1000 + 500),
        (StopConfig(env_steps=5000), 4000 + 4000 + 4000 + 3500),
        (StopConfig(env_steps=900), 900 + 400),
        (StopConfig(updates=592), 600 + 100),
    ],
)
def test_short_run_needs_what_it_will_have_collected(
    tmp_path: Path, disk: SimpleNamespace, stop: StopConfig, rows: int
) -> None:
    every = CheckpointConfig(every_updates=500)
    needs(plan(tmp_path, stop=stop, checkpoint=every), disk, ROW * rows)


def test_only_last_checkpoint_counts_where_there_is_no_other(
    tmp_path: Path, disk: SimpleNamespace
) -> None:
    needs(plan(tmp_path, checkpoint=CheckpointConfig(every_updates=None)), disk, FULL)


def test_checkpoints_without_a_replay_are_small(tmp_path: Path, disk: SimpleNamespace) -> None:
    check_disk(plan(tmp_path, checkpoint=CheckpointConfig(replay=False)))
    check_disk(plan(tmp_path, checkpoint=CheckpointConfig(every_updates=None, at_end=False)))
    check_disk(make_run_plan(tmp_path, make_config()))


def test_what_is_replaced_is_counted(tmp_path: Path) -> None:
    for name in ("7", "8.damaged", "9.tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_bytes(b"12345")
    (tmp_path / "7" / "shared").write_bytes(b"with another run")
    (tmp_path / "other").hardlink_to(tmp_path / "7" / "shared")
    (tmp_path / "best").write_bytes(b"stays")
    assert checkpoints_bytes(tmp_path) == 5
