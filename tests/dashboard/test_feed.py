"""Rows and decisions of a run, read while others write them."""

from __future__ import annotations

import json
from pathlib import Path

from fast_core.dashboard import feed
from fast_core.dashboard.feed import Feed, History
from fast_core.dashboard.source import Event, Rows
from fast_core.monitor.metrics_file import supersede
from fast_core.monitor.run_directory import RunDirectory


def row(env_steps: int, **values: float) -> str:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    known = {"env_steps": env_steps, "updates": env_steps // 8, "time_s": 1.0, "values": named}
    return json.dumps(known) + "\n"


def entry(what: str, why: str) -> str:
    return json.dumps({"time_s": 1.0, "wall": "", "what": what, "why": why, "facts": {}}) + "\n"


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rows_of(news: list[Rows | Event], kind: str) -> list[object]:
    return [
        each["env_steps"]
        for one in news
        if isinstance(one, Rows)
        for each in one.rows
        if one.kind == kind
    ]


def test_rows_come_as_they_are_written_and_rubbish_is_passed_over(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    found = Feed(run)
    add(run.metrics, row(8, train__loss=1.0) + "rubbish\n" + '{"env_steps": "many"}\n')
    add(run.metrics, row(16, eval__quarantined_share=0.0, eval__return_mean=7.0))
    void, news = found.read()
    assert not void
    assert rows_of(news, "train") == [8]
    assert rows_of(news, "evaluation") == [16]
    assert found.histories["train"].columns()["train/loss"] == [1.0]
    assert found.read() == (False, [])


def test_resume_takes_back_what_it_replaces(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    found = Feed(run)
    add(run.metrics, "".join(row(n, train__loss=1.0) for n in (8, 16, 24)))
    found.catch_up()
    supersede(run.metrics, run.superseded_metrics, 8)
    add(run.metrics, row(12, train__loss=2.0))
    void, news = found.read()
    assert void and news == []
    assert found.histories["train"].columns()["env_steps"] == [8, 12]
    add(run.metrics, row(20, train__loss=2.0))
    assert rows_of(found.read()[1], "train") == [20]


def test_history_keeps_its_ends_and_some_of_what_is_between() -> None:
    history = History()
    for n in range(5 * feed.MOST_POINTS + 3):
        history.add({"env_steps": n, "a" if n % 2 else "b": n})
    columns = history.columns()
    kept = columns["env_steps"]
    assert kept[0] == 0 and kept[-1] == 5 * feed.MOST_POINTS + 2
    assert feed.MOST_POINTS / 2 < len(kept) <= feed.MOST_POINTS + 1
    assert {len(each) for each in columns.values()} == {len(kept)}
    assert History().columns() == {}


def test_decisions_say_who_is_away_and_how_it_ended(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    found = Feed(run)
    add(run.events, entry("start", "all are ready") + entry("node lost", "env-0 is gone: killed"))
    _, news = found.read()
    assert [(each.kind, each.text) for each in news if isinstance(each, Event)] == [
        ("start", "all are ready"),
        ("node lost", "env-0 is gone: killed"),
    ]
    assert found.away == {"env-0"}
    add(run.events, entry("node back", "env-0 is ready again") + entry("end", "finished: enough"))
    found.catch_up()
    assert (found.away, found.end) == (set(), "finished: enough")
    add(run.events, entry("resume", "all are ready"))
    found.catch_up()
    assert found.end == ""


def test_last_decisions_are_kept_for_who_comes_later(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    add(run.events, "".join(entry("save", str(n)) for n in range(feed.MOST_EVENTS + 2)))
    found = Feed(run)
    found.catch_up()
    assert len(found.events) == feed.MOST_EVENTS
    assert (found.events[0].text, found.events[-1].text) == ("2", str(feed.MOST_EVENTS + 1))
