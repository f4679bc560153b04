"""A folder of runs, looked at again and again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from fast_core.dashboard import files
from fast_core.dashboard import overview as overview_module
from fast_core.dashboard.curves import METRICS, Curve
from fast_core.dashboard.overview import News, Overview
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_state import RunState, read_state
from tests.tools.made_runs import made_run

EVALUATION, TRAINING = METRICS


def looked(overview: Overview, mark: str = "") -> News:
    overview.look()
    return overview.news(mark)


def append(path: Path, env_steps: int, value: float, metric: str = EVALUATION) -> None:
    row = {"env_steps": env_steps, "updates": 1, "time_s": 1.0, "values": {metric: value}}
    with RunDirectory(path).metrics.open("a") as file:
        file.write(json.dumps(row) + "\n")


def curve(overview: Overview, group: str, metric: str = EVALUATION) -> Curve:
    return overview.curve(group, metric)


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path: Path) -> None:
    for seed in range(3):
        made_run(tmp_path, f"seed={seed}", "dashboard.enabled=true", values=[1.0, 4.0])
    slow = made_run(tmp_path, "algorithm.learning_rate=1e-5", values=[2.0])
    news = looked(Overview(tmp_path))
    rows = {row.id: row for row in news.runs}
    found = {group.name: [rows[run].seed for run in group.runs] for group in news.groups or ()}
    assert found == {"made: learning_rate=0.0003": [0, 1, 2], "made: learning_rate=1.0e-05": [0]}
    (row,) = [row for row in news.runs if row.name == str(slow.relative_to(tmp_path))]
    assert (row.state, row.algorithm, row.environment, row.env_steps, row.best) == (
        "finished",
        "ppo",
        "CartPole-v1",
        100,
        2.0,
    )


def test_keys_that_came_later_tell_no_run_apart_from_older_ones(tmp_path: Path) -> None:
    new = made_run(tmp_path, "seed=0", "environment.atari.noop_max=3", values=[1.0])
    old = RunDirectory(made_run(tmp_path, "seed=1", "environment.atari.noop_max=3", values=[1.0]))
    lines = old.config.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "no_reward" not in line]
    assert len(kept) == len(lines) - 2
    old.config.write_text("".join(kept))
    news = looked(Overview(tmp_path))
    assert [len(group.runs) for group in news.groups or ()] == [2], new


def test_only_what_has_changed_is_told_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = made_run(tmp_path, values=[1.0])
    running = made_run(tmp_path, "seed=1", values=[1.0], outcome=None)
    lock = RunDirectory(running).lock()
    overview = Overview(tmp_path)
    mark = looked(overview).mark
    read: list[Path] = []

    def reading(path: Path, *most_bytes: int) -> RunState:
        read.append(path)
        return read_state(path, *most_bytes)

    monkeypatch.setattr(overview_module, "read_state", reading)
    assert looked(overview, mark).runs == () and read == []
    append(running, 500, 7.0)
    news = looked(overview, mark)
    assert [(row.seed, row.state, row.env_steps, row.best) for row in news.runs] == [
        (1, "running", 500, 7.0)
    ]
    assert read == [running] and news.groups is None and not news.whole
    lock.close()  # killed: no file of it changes
    assert [row.state for row in looked(overview, news.mark).runs] == ["interrupted"]
    assert ended not in read


def test_runs_come_and_go(tmp_path: Path) -> None:
    overview = Overview(tmp_path / "runs")
    empty = looked(overview)
    assert (empty.runs, empty.groups) == ((), ())
    first = made_run(tmp_path / "runs", values=[1.0])
    news = looked(overview, empty.mark)
    (row,) = news.runs
    assert overview.path(row.id) == first and overview.path("../..") is None
    shutil.rmtree(first)
    gone = looked(overview, news.mark)
    assert (gone.gone, gone.groups, overview.path(row.id)) == ((row.id,), (), None)
    assert looked(overview, "another.3").whole


def test_best_of_a_run_that_goes_on_is_over_all_of_its_rows(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[90.0] + [1.0] * 2000, outcome=None)
    lock = RunDirectory(path).lock()
    (row,) = looked(Overview(tmp_path)).runs
    lock.close()
    assert (row.state, row.best, row.last) == ("running", 90.0, 1.0)


def test_half_a_line_waits_for_its_rest_and_a_replaced_file_is_read_anew(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[1.0], outcome=None)
    metrics = RunDirectory(path).metrics
    overview = Overview(tmp_path)
    (group,) = looked(overview).groups or ()
    with metrics.open("a") as file:
        file.write('{"env_steps": 200, "updates": 1, "time_s": 1')
    assert curve(overview, group.id).env_steps == [100]
    with metrics.open("a") as file:
        file.write('.0, "values": {"eval/return_mean": 5.0}}\nrubbish\n')
    assert curve(overview, group.id).mean == [1.0, 5.0]
    new = metrics.with_suffix(".new")
    new.write_bytes(metrics.read_bytes().splitlines(keepends=True)[1])
    os.replace(new, metrics)  # as a resume from an earlier step does
    assert curve(overview, group.id).env_steps == [200]


def test_seeds_are_never_continued_beyond_what_they_reached(tmp_path: Path) -> None:
    made_run(tmp_path, values=[0.0, 10.0, 20.0, 30.0])
    made_run(tmp_path, "seed=1", values=[2.0, 12.0], every=150)
    (group,) = looked(overview := Overview(tmp_path)).groups or ()
    found = curve(overview, group.id)
    assert found.env_steps == [100, 150, 200, 300, 400]
    assert (found.n, found.runs) == ([1, 2, 2, 2, 1], 2)
    assert found.mean == [0.0, 3.5, pytest.approx((10 + 2 + 10 / 3) / 2, rel=1e-5), 16.0, 30.0]
    assert (found.low[3], found.high[3], found.std[0]) == (12.0, 20.0, 0.0)


def test_same_seed_twice_is_one_sample_the_newest_with_a_value(tmp_path: Path) -> None:
    made_run(tmp_path, values=[1.0])
    made_run(tmp_path, values=[5.0])
    made_run(tmp_path, values=[])
    made_run(tmp_path, "seed=1", values=[7.0])
    (group,) = looked(overview := Overview(tmp_path)).groups or ()
    assert curve(overview, group.id).mean == [6.0]
    assert curve(overview, group.id, TRAINING).runs == 0


def test_long_series_are_thinned_evenly_and_keep_both_ends(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[float(i) for i in range(5000)], every=1)
    (row,) = looked(overview := Overview(tmp_path)).runs
    found = curve(overview, row.id)
    assert 200 < len(found.env_steps) <= 300 and found.env_steps[-1] == 5000
    gaps = [b - a for a, b in zip(found.env_steps, found.env_steps[1:], strict=False)]
    assert max(gaps) < 4 * min(gaps[1:-1])
    kept = overview.curves.of(path)
    assert 300 <= kept.series(EVALUATION).values.size <= 600 and kept.best(EVALUATION) == 4999.0


def test_foreign_folders_are_shown_as_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "a" / "2026-01-01_00-00-00_seed0").mkdir(parents=True)
    rubbish = tmp_path / "b" / "2026-01-01_00-00-00_seed0"
    rubbish.mkdir(parents=True)
    for name in ("config.yaml", "metrics.jsonl", "events.jsonl", "lock", "dashboard.json"):
        (rubbish / name).write_bytes(b"\xff\x00{]: [\n")
    for name in ("2026-99-01_00-00-00", "0001-01-01_00-00-00", "2026-01-01_00-00-00_seed0"):
        (tmp_path / os.fsdecode(b"\xff") / name).mkdir(parents=True)
    news = looked(Overview(tmp_path))
    assert msgspec.json.encode(news)
    assert [(row.state, row.group, row.live) for row in news.runs] == [("interrupted", "", "")] * 5
    assert news.groups == ()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8420/?token=secret", "http://127.0.0.1:8420/"),
        ("http://user:secret@host:1/x", "http://host:1/"),
        ("javascript:alert(1)", ""),
        ("//host", ""),
    ],
)
@pytest.mark.parametrize("token", ["", "a&b"])
def test_live_page_of_a_running_run_is_linked_with_its_token_alone(
    tmp_path: Path, url: str, shown: str, token: str
) -> None:
    path = made_run(tmp_path, values=[1.0], outcome=None)
    facts = {"url": url, "port": 1, "pid": os.getpid(), "token": token}
    (path / "dashboard.json").write_text(json.dumps(facts))
    overview = Overview(tmp_path)

    def live() -> str:
        overview.look()
        (row,) = overview.news().runs
        return row.live

    assert live() == ""
    lock = RunDirectory(path).lock()
    assert live() == (f"{shown}?token=a%26b" if shown and token else shown)
    (path / "dashboard.json").unlink()
    assert live() == ""
    lock.close()


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.yaml", "name: a\nalgorithm: {name: ppo}\nenvironment: {id: x}\nseed: .inf\n"),
        ("config.yaml", "name: a\nalgorithm: &a {name: *a}\nenvironment: {id: x}\nseed: 0\n"),
        ("config.yaml", "[" * 5000 + "]" * 5000),
        ("metrics.jsonl", '{"x":' + "[" * 5000 + "\n"),
        ("events.jsonl", '{"x":' + "[" * 5000 + "\n"),
        ("dashboard.json", '{"x":' + "[" * 5000),
        ("../sweep.yaml", "seeds: .inf\n"),
        ("../sweep.yaml", "seeds: 2\ngrid: &a {x: *a}\n"),
    ],
)
def test_one_strange_file_hides_nothing_else(tmp_path: Path, file: str, text: str) -> None:
    fine, strange = made_run(tmp_path, values=[1.0]), made_run(tmp_path, "name=b", values=[1.0])
    (strange / file).write_text(text)
    lock = RunDirectory(strange).lock()
    news = looked(Overview(tmp_path))
    lock.close()
    assert msgspec.json.encode(news)
    found = {row.name: row.state for row in news.runs}
    assert found[str(fine.relative_to(tmp_path))] == "finished"
    assert found[str(strange.relative_to(tmp_path))] == "running"
    files.facts_of(RunDirectory(strange))


def test_error_in_reading_one_run_is_said_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = made_run(tmp_path, values=[1.0]), made_run(tmp_path, values=[1.0])

    def fails(run: Path) -> RunState:
        if run == path:
            raise MemoryError("too much")
        return read_state(run)

    monkeypatch.setattr(overview_module, "read_state", fails)
    rows = {row.name: row for row in looked(Overview(tmp_path)).runs}
    assert rows[str(other.relative_to(tmp_path))].state == "finished"
    row = rows[str(path.relative_to(tmp_path))]
    assert (row.state, row.text) == ("unknown", "its files can't be read: MemoryError: too much")


def test_sweep_says_how_far_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    made_run(folder, "name=a", values=[1.0])
    made_run(folder, "name=a", outcome="failed")  # the same seed again
    made_run(folder, "name=b", "seed=1", outcome="interrupted")
    (folder / "sweep.yaml").write_text("seeds: [0, 1]\ngrid: {x: [1, 2], y: {z: [1]}}\n")
    overview = Overview(tmp_path)
    (sweep,) = looked(overview).sweeps or ()
    assert (sweep.name, sweep.planned, sweep.waiting, sweep.pid) == ("many", 4, 2, None)
    assert sweep.states == {"failed": 1, "interrupted": 1}
    # As a key of the grid that was overridden stands there: the last one is what is run.
    (folder / "sweep.yaml").write_text("seeds: 1\ngrid: {y.z: [1, 2, 3], y: {z: [1, 2]}}\n")
    (sweep,) = looked(overview).sweeps or ()
    assert (sweep.planned, sweep.waiting) == (2, 0)
    (folder / "sweep.yaml").write_text("seeds: ?\n  - [")
    (sweep,) = looked(overview).sweeps or ()
    assert (sweep.planned, sweep.waiting) == (None, 0)


def test_row_of_a_folder_that_is_a_run_has_its_name(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[1.0])
    (row,) = looked(Overview(path)).runs
    assert row.name == path.name
