from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from fast_core.monitor.journal import EventJournal, read_entries
from tests.monitor.views import SUMMARY

WALL = datetime(2025, 3, 9, 12, 0, 5, 678_901, tzinfo=UTC)


def journal_at(path: Path, reports: list[str] | None = None) -> EventJournal:
    seconds = iter([0.5, 1.25, 2.0, 3.0])
    return EventJournal(
        path,
        clock=lambda: next(seconds),
        wall=lambda: WALL,
        report=(reports if reports is not None else []).append,
    )


def test_each_entry_is_one_json_line_with_time_and_reason(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "events.jsonl")
    journal.write("start", "3 nodes are ready")
    journal.write("checkpoint", "5000 updates", {"number": 2, "kept": True})
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    journal.close()
    assert json.loads(lines[0]) == {
        "time_s": 0.5,
        "wall": "2025-03-09T12:00:05.678+00:00",
        "what": "start",
        "why": "3 nodes are ready",
        "facts": {},
    }
    assert json.loads(lines[1])["facts"] == {"number": 2, "kept": True}


def test_entries_of_a_resumed_run_follow_the_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for what in ("start", "resume"):
        journal = journal_at(path)
        journal.write(what, "")
        journal.close()
    assert [entry.what for entry in read_entries(path)] == ["start", "resume"]


def test_reading_leaves_out_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    journal = journal_at(path)
    journal.write("start", "a")
    journal.close()
    with path.open("a") as file:
        file.write('{"time_s": 1.0, "wh')
    journal = journal_at(path)
    journal.write("resume", "b")
    journal.close()
    assert [entry.what for entry in read_entries(path)] == ["start", "resume"]
    assert list(read_entries(tmp_path / "missing")) == []


def test_summary_is_kept_for_the_report(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "e")
    journal.summarise(SUMMARY)
    journal.close()
    (entry,) = read_entries(tmp_path / "e")
    assert (entry.what, entry.why) == ("summary", SUMMARY.text)
    assert entry.facts["outcome"] == "finished"
    assert entry.facts["env_steps"] == 300_000
    assert entry.facts["best_evaluation"] == 475.0


def test_foreign_value_in_the_facts_becomes_text_or_number(tmp_path: Path) -> None:
    journal = journal_at(tmp_path / "e")
    journal.write("x", "y", {"a": np.float32(0.5), "b": tmp_path, "c": float("nan")})  # type: ignore[dict-item]
    journal.close()
    (entry,) = read_entries(tmp_path / "e")
    assert entry.facts == {"a": "0.5", "b": str(tmp_path), "c": None}


def test_failing_disk_is_reported_once_and_never_raised() -> None:
    reports: list[str] = []
    journal = journal_at(Path("/dev/full"), reports)
    journal.write("a", "b")
    journal.write("c", "d")
    journal.close()
    assert len(reports) == 1
