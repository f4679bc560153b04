"""Which run a folder's name stands for: the newest by real time that has what is asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from fast_core.monitor.run_directory import RunDirectory
from tests.process.harness import PATIENCE_S, ROOT

pytestmark = pytest.mark.process
LAUNCH = (
    *("launch", "ppo_cartpole", "name=x", "stop={env_steps: 512}", "mode=inline"),
    *("rollout={shards: 1, envs_per_shard: 2, steps: 64}", "evaluation={episodes: 1}"),
)


def fastloop(folder: Path, *arguments: str, zone: str = "UTC", status: int = 0) -> tuple[str, str]:
    """What a command says, on standard output and on standard error, in a time zone."""
    done = subprocess.run(
        [sys.executable, "-m", "fast_core.cli", *arguments],
        cwd=folder,
        env={**os.environ, "TZ": zone, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_later_run_of_another_time_zone_that_has_a_policy_is_the_newest(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    early = RunDirectory.create(runs, "x", datetime.now(ZoneInfo("Asia/Tokyo")), 1)
    fastloop(tmp_path, *LAUNCH, zone="America/Los_Angeles")
    (late,) = {*early.path.parent.iterdir()} - {early.path}
    assert late.name < early.path.name
    failed = RunDirectory.create(runs, "x", datetime.now(), 3)
    failed.crash.write_text("ValueError: boom\n")
    for run in (early, failed):
        run.write_config((late / "config.yaml").read_text())

    out, err = fastloop(tmp_path, "eval", "runs/x", "--episodes", "1")
    assert json.loads(out)["run"] == str(late)
    told = f"{late} is taken; newer runs are passed over: {failed.path.name} has"
    assert f"{told} no policy (failed: ValueError: boom)" in err
    _, err = fastloop(tmp_path, "resume", "runs/x", "stop.env_steps=1024")
    assert f"{told} no checkpoint (failed: ValueError: boom)" in err
    assert '"resume"' in (late / "events.jsonl").read_text()
    lines = fastloop(tmp_path, "list")[0].splitlines()[1:]
    assert [line.split()[0].rpartition("/")[2] for line in lines] == [
        failed.path.name,
        late.name,
        early.path.name,
    ]


def test_run_of_the_hour_that_came_again_is_the_newest(tmp_path: Path) -> None:
    berlin, runs = ZoneInfo("Europe/Berlin"), []
    for fold, minute in ((0, 50), (1, 10)):  # ten past two, after ten to three
        made = datetime(2026, 10, 25, 2, minute, fold=fold, tzinfo=berlin)
        runs.append(RunDirectory.create(tmp_path, "x", made))
        runs[-1].write_config("name: x\n")
    lines = fastloop(tmp_path, "list", ".", zone="Europe/Berlin")[0].splitlines()[1:]
    assert [line.split()[0] for line in lines] == [f"x/{run.path.name}" for run in reversed(runs)]
    _, err = fastloop(tmp_path, "stop", "x", zone="Europe/Berlin", status=2)
    assert f"the run '{runs[1].path}' does not run" in err
