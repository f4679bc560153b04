"""Which run a folder's name stands for: the newest by real time that has what is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from fast_core.monitor.run_directory import RunDirectory
from tests.process.harness import Workplace

pytestmark = pytest.mark.process
LAUNCH = (
    *("launch", "ppo_cartpole", "name=x", "stop={env_steps: 512}", "mode=inline"),
    *("rollout={shards: 1, envs_per_shard: 2, steps: 64}", "evaluation={episodes: 1}"),
)
Fastloop = Callable[..., str]


@pytest.fixture
def fastloop(workplace: Workplace, tmp_path: Path) -> Fastloop:
    """What a command shows in a time zone."""

    def shows(*arguments: str, zone: str = "UTC", status: int = 0) -> str:
        launched = workplace.fastloop(arguments, tmp_path, environment={"TZ": zone})
        assert launched.wait() == status, launched.screen
        return launched.screen

    return shows


def test_later_run_of_another_time_zone_that_has_a_policy_is_the_newest(
    tmp_path: Path, fastloop: Fastloop
) -> None:
    runs = tmp_path / "runs"
    early = RunDirectory.create(runs, "x", datetime.now(ZoneInfo("Asia/Tokyo")), 1)
    fastloop(*LAUNCH, zone="America/Los_Angeles")
    (late,) = {*early.path.parent.iterdir()} - {early.path}
    assert late.name < early.path.name
    failed = RunDirectory.create(runs, "x", datetime.now(), 3)
    failed.crash.write_text("ValueError: boom\n")
    for run in (early, failed):
        run.write_config((late / "config.yaml").read_text())

    shown = fastloop("eval", "runs/x", "--episodes", "1")
    assert json.loads(shown[shown.index("{") :])["run"] == str(late)
    told = f"{late} is taken; newer runs are passed over: {failed.path.name} has"
    assert f"{told} no policy (failed: ValueError: boom)" in shown
    shown = fastloop("resume", "runs/x", "stop.env_steps=1024")
    assert f"{told} no checkpoint (failed: ValueError: boom)" in shown
    assert '"resume"' in (late / "events.jsonl").read_text()
    lines = fastloop("list").splitlines()[1:]
    assert [line.split()[0].rpartition("/")[2] for line in lines] == [
        failed.path.name,
        late.name,
        early.path.name,
    ]


def test_run_of_the_hour_that_came_again_is_the_newest(tmp_path: Path, fastloop: Fastloop) -> None:
    berlin, runs = ZoneInfo("Europe/Berlin"), []
    for fold, minute in ((0, 50), (1, 10)):  # ten past two, after ten to three
        made = datetime(2026, 10, 25, 2, minute, fold=fold, tzinfo=berlin)
        runs.append(RunDirectory.create(tmp_path, "x", made))
        runs[-1].write_config("name: x\n")
    lines = fastloop("list", ".", zone="Europe/Berlin").splitlines()[1:]
    assert [line.split()[0] for line in lines] == [f"x/{run.path.name}" for run in reversed(runs)]
    shown = fastloop("stop", "x", zone="Europe/Berlin", status=2)
    assert f"the run '{runs[1].path}' does not run" in shown
