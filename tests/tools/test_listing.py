"""Runs are listed with how they stand."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from fast_core.errors import ConfigError
from fast_core.monitor.journal import read_entries
from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import read_state
from fast_core.monitor.tail import Tail
from fast_core.tools.cli import main
from fast_core.tools.listing import list_runs, show_runs
from tests.tools.made_runs import made_run


def test_checkpoint_says_that_it_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made_run(tmp_path, outcome="interrupted")
    assert show_runs(tmp_path) == 0
    assert "nothing to resume from" in capsys.readouterr().out
    (path / "checkpoints" / "000000000100").mkdir()
    (path / "checkpoints" / "000000000100" / "manifest.json").write_text("{}")
    assert read_state(path).checkpoint == "000000000100"
    show_runs(tmp_path)
    assert "can be resumed" in capsys.readouterr().out


def test_runs_are_listed_newest_first_wherever_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made_run(tmp_path / "sweep", "name=a")
    second = made_run(tmp_path / "sweep", "name=b")
    (tmp_path / "notes").mkdir()
    (tmp_path / "2026-99-01_00-00-00").mkdir()  # no day, so the last
    (tmp_path / "0001-01-01_00-00-00").mkdir()
    assert [run.path for run in list_runs(tmp_path)][:2] == [second, first]
    show_runs(tmp_path, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [row["state"] for row in found] == ["finished"] * 2 + ["interrupted"] * 2
    assert found[0]["bytes"] > 0


def test_run_that_was_given_another_name_is_listed_and_what_is_in_it_is_not(tmp_path: Path) -> None:
    path = made_run(tmp_path / "runs", values=[1.0]).rename(tmp_path / "the best")
    (path / "copy").mkdir()
    for name in ("config.yaml", "events.jsonl"):
        (path / "copy" / name).touch()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.yaml").touch()  # no run
    assert [run.path for run in list_runs(tmp_path)] == [path]
    assert [run.path for run in list_runs(path)] == [path]


def test_no_folder_and_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        list_runs(tmp_path / "runs")
    assert show_runs(tmp_path) == 0
    assert "no runs in" in capsys.readouterr().out


def test_runs_that_others_keep_to_themselves_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, other = (made_run(tmp_path, values=[1.0]) for _ in range(2))
    seen = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        if other in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return seen(path, **how)

    # Tests may be root, who may look into all.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != other)
    monkeypatch.setattr(Path, "stat", stat)
    assert [each.path for each in list_runs(tmp_path)] == [mine]
    assert RunDirectory.open(tmp_path / "made").path == mine
    assert main(["list", str(other)]) == 1
    assert f"fastloop: '{other}/" in (told := capsys.readouterr().err)
    assert "is closed to you: Permission denied" in told


@pytest.mark.timeout(20)
def test_pipes_in_place_of_files_are_waited_for_by_nobody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("metrics", "events", "config", "lock_file", "crash"):
        run = RunDirectory(made_run(tmp_path, values=[1.0]))
        file = getattr(run, name)
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    assert show_runs(tmp_path) == 0
    assert len(list_runs(tmp_path)) == 5
    capsys.readouterr()
    for run in list_runs(tmp_path):
        files = RunDirectory(run.path)
        assert Tail(files.metrics).read()[0] is False
        assert len(list(read_rows(files.metrics))) + len(list(read_entries(files.events))) > 0
