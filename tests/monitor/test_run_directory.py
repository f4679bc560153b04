from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fast_core.config.yaml_text import MOST_BYTES
from fast_core.errors import ConfigError
from fast_core.monitor.run_directory import RunDirectory

NOON = datetime(2025, 3, 9, 12, 0, 5)


def make_run(root: Path, name: str = "cartpole", now: datetime = NOON) -> RunDirectory:
    run = RunDirectory.create(root, name, now)
    run.write_config("name: cartpole\n")
    return run


def test_create_makes_the_folder_named_after_the_time(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "cartpole", NOON, seed=7)
    assert run.path == tmp_path / "runs" / "cartpole" / "2025-03-09_12-00-05_seed7"
    assert sorted(child.name for child in run.path.iterdir()) == [
        "began.txt",
        "checkpoints",
        "logs",
        "tensorboard",
    ]


def test_ten_launches_in_one_second_get_ten_folders(tmp_path: Path) -> None:
    runs = [make_run(tmp_path) for _ in range(10)]
    assert len({run.path for run in runs}) == 10
    assert RunDirectory.open(tmp_path / "cartpole").path == runs[-1].path


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "/etc"])
def test_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="folder name"):
        RunDirectory.create(tmp_path, name, NOON)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_place_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"can't make.*directory=") as caught:
        RunDirectory.create(tmp_path / "file", "cartpole", NOON)
    assert isinstance(caught.value.__cause__, OSError)


def test_open_takes_the_run_directory_itself(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert RunDirectory.open(run.path).path == run.path


def test_open_takes_the_newest_run_by_its_name_not_its_file_time(tmp_path: Path) -> None:
    late = make_run(tmp_path, now=datetime(2025, 12, 31, 23, 59, 59))
    early = make_run(tmp_path, now=datetime(2025, 1, 1))
    early.write_config("touched: later\n")
    assert RunDirectory.open(tmp_path / "cartpole").path == late.path


def test_open_passes_over_a_launch_that_never_wrote_its_configuration(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    RunDirectory.create(tmp_path, "cartpole", datetime(2026, 1, 1))
    assert RunDirectory.open(tmp_path / "cartpole").path == run.path


def test_open_makes_a_relative_path_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert RunDirectory.open("cartpole").path == run.path


def test_missing_run_error_lists_what_is_there(tmp_path: Path) -> None:
    make_run(tmp_path, "pendulum")
    with pytest.raises(ConfigError, match=r"no run at .*pendulm.*no such folder.*holds pendulum"):
        RunDirectory.open(tmp_path / "pendulm")


def test_folder_without_a_run_error_lists_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a_file").write_text("")
    for number in range(10):
        (tmp_path / f"name{number}").mkdir()
    with pytest.raises(ConfigError, match=r"config\.yaml.*holds name0, .*name7 and 2 more"):
        RunDirectory.open(tmp_path)


def test_file_instead_of_a_run_is_named_as_such(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(ConfigError, match="it is a file"):
        RunDirectory.open(run.config)


def test_log_file_name_can_not_leave_the_logs_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert run.log("env-0") == run.logs / "env-0.log"
    assert run.log("../../env 1").parent == run.logs


def test_write_config_replaces_the_whole_file(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.write_config("seed: 1\n")
    assert run.config.read_text() == "seed: 1\n"
    files = sorted(child.name for child in run.path.iterdir() if child.is_file())
    assert files == ["began.txt", "config.yaml"]


def test_modules_are_found_where_any_part_of_the_run_did_and_there_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDirectory.create(tmp_path, "a", datetime.now())
    monkeypatch.setattr(sys, "path", ["first"])
    run.look_where_it_began()
    for odd in ("not JSON", "5", "null", '["a"]', '[{"modules_in": 5}]', "[" * 99999):
        run.versions.write_text(odd)
        run.look_where_it_began()
    here, there = str(tmp_path / "here:too"), str(tmp_path / "there")
    Path(here).mkdir()
    Path(there).mkdir()
    parts = [
        {"python": "3"},
        {"modules_in": f"{here}\n{tmp_path / 'gone'}\n."},
        {"modules_in": there},
    ]
    run.versions.write_text(json.dumps(parts))
    run.look_where_it_began()
    run.look_where_it_began()
    assert sys.path == ["first", there, here]


def test_module_of_the_current_folder_is_told_to_be_another_than_the_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunDirectory.create(tmp_path, "a", datetime.now())
    monkeypatch.setattr(sys, "path", [*sys.path])
    began, here = tmp_path / "began", tmp_path / "here"
    for folder in (began, here):
        (folder / "package").mkdir(parents=True)
        for name in ("task.py", "wraps.py", "named.py", "json.py", "package/net.py"):
            (folder / name).touch()
    (began / "only_there.py").touch()
    run.versions.write_text(json.dumps([{"modules_in": str(began)}]))
    run.config.write_text(
        "name: named\n"
        "environment: {id: 'task:Mine-v0', modules: [only_there, wraps, json], kwargs: {a: b}}\n"
        "algorithm: {name: ppo, network: 'package.net:Net'}\n"
    )
    monkeypatch.chdir(here)
    for _ in range(2):
        run.look_where_it_began()
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition("'")[2].partition("'")[0] for text in told] == [
        "task",
        "wraps",
        "package.net",
    ]
    assert all(f"{here}, not" in text and str(began) in text for text in told)
    caplog.clear()
    monkeypatch.chdir(began)
    run.look_where_it_began()
    monkeypatch.chdir(tmp_path)
    run.look_where_it_began()
    monkeypatch.chdir(here)
    run.config.write_text(f"environment: {{id: 'named:Mine'}}  # {'x' * MOST_BYTES}")
    run.look_where_it_began()
    assert not caplog.records, "what is too long to be a configuration is not looked through"


def test_what_cannot_be_looked_at_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the same folder by another path, and what is no module's name."""
    run = RunDirectory.create(tmp_path, "a", datetime.now())
    here, link = tmp_path / "here", tmp_path / "link"
    here.mkdir()
    link.symlink_to(here)
    (here / "task.py").touch()
    (here / "cuda.py").touch()
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(here)
    run.versions.write_text(json.dumps([{"modules_in": f"..\n{link}\n{tmp_path}"}]))
    (tmp_path / "task.py").touch()
    (tmp_path / "cuda.py").touch()
    configs = ("id: task:Mine", f"id: {'t' * 300}:Mine", "device: cuda:0", "n: !!int ''", "{", "\0")
    shared = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))
    configs += (f"a0: &a0 [task]\n{shared}", "a: &a [*a]")
    for config in configs:
        run.config.write_text(config)
        run.look_where_it_began()
    assert not caplog.records


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def local_time_is(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield local_time_is
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("first", "second", "later_s"),
    [("Asia/Tokyo", "America/New_York", 60), ("Europe/Berlin", "Europe/Berlin", 2400)],
)
def test_newest_run_is_that_which_began_last_whatever_clocks_said(
    tmp_path: Path, zone: Callable[[str], None], first: str, second: str, later_s: int
) -> None:
    # Half past two in Berlin, where three o'clock is two o'clock again: ten past comes after it.
    now = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    runs = []
    for name, at in ((first, now), (second, now + later_s)):
        zone(name)
        runs.append(RunDirectory.create(tmp_path, "x", datetime.fromtimestamp(at)))
        runs[-1].write_config("")
    early, late = runs
    assert late.path.name < early.path.name
    for name in ("UTC", first, second):
        zone(name)
        assert RunDirectory.open(tmp_path / "x").path == late.path
        assert late.began == datetime.fromtimestamp(now + later_s, UTC)


def test_run_of_before_began_when_its_name_says(
    tmp_path: Path, zone: Callable[[str], None]
) -> None:
    zone("Asia/Tokyo")
    run = make_run(tmp_path)
    for nothing in (b"", b"now\n", b"2026-01-01T00:00:00\n", b"\xff" * 200):
        (run.path / "began.txt").write_bytes(nothing)
        assert run.began == NOON.astimezone(UTC)
    (run.path / "began.txt").unlink()
    assert run.began == NOON.astimezone(UTC)
    assert RunDirectory(run.path.rename(tmp_path / "renamed")).began is None


def test_newer_runs_that_lack_what_is_asked_for_are_passed_over_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [make_run(tmp_path, now=NOON + timedelta(minutes=minute)) for minute in range(3)]
    for run in runs:
        run.write_config("")
    lacking = {runs[1].path: "no rows", runs[2].path: "no\x1b[2J rows"}
    found = RunDirectory.open(tmp_path / "cartpole", lambda run: lacking.get(run.path, ""))
    assert found.path == runs[0].path
    (said,) = caplog.messages
    assert said == (
        f"{runs[0].path} is taken; newer runs are passed over: {runs[2].path.name} has no�[2J "
        f"rows; {runs[1].path.name} has no rows"
    )
    assert RunDirectory.open(tmp_path / "cartpole", lambda run: "nothing").path == runs[2].path
