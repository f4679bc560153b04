from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import numpy as np
import pytest

from fast_core.messages import Record
from fast_core.monitor.metrics_file import read_rows
from fast_core.monitor.metrics_writer import MetricsWriter


def record(env_steps: int, **values: float) -> Record:
    return Record(env_steps, env_steps // 64, env_steps / 1000, values)


def writer_in(path: Path, reports: list[str] | None = None) -> MetricsWriter:
    return MetricsWriter(path, report=([] if reports is None else reports).append)


def test_record_is_written_with_its_own_steps(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(Record(640, 10, 1.5, {"policy_loss": 0.5, "eval/return_mean": 200.0}))
    row = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert row == {
        "env_steps": 640,
        "updates": 10,
        "time_s": 1.5,
        "values": {"train/policy_loss": 0.5, "eval/return_mean": 200.0},
    }
    writer.close()
    writer.close()


def test_resume_from_an_earlier_step_leaves_rising_steps_and_loses_none(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    for step in range(100, 901, 100):
        writer.write(record(step, a=float(step)))
    writer.close()

    resumed = writer_in(tmp_path)
    resumed.truncate_after(600)
    for step in range(650, 1001, 50):
        resumed.write(record(step, a=-float(step)))
    resumed.close()

    steps = [*range(100, 601, 100), *range(650, 1001, 50)]
    expected = [(step, float(step) if step <= 600 else -float(step)) for step in steps]
    rows = [(row.env_steps, row.values["train/a"]) for row in read_rows(tmp_path / "metrics.jsonl")]
    assert rows == expected
    aside = read_rows(tmp_path / "metrics.superseded.jsonl")
    assert [row.env_steps for row in aside] == [700, 800, 900]


def test_evaluation_that_a_resume_plays_again_has_one_row(tmp_path: Path) -> None:
    """It ended after the checkpoint that it is not in; its row is of an earlier version."""

    def evaluation(env_steps: int, updates: int) -> Record:
        return Record(env_steps, updates, 1.0, {"eval/quarantined_share": 0.0})

    writer = writer_in(tmp_path)
    writer.write(evaluation(64, 1))
    writer.write(record(128, a=1.0))
    writer.write(evaluation(128, 2))  # the same steps, another row
    writer.close()

    resumed = writer_in(tmp_path)
    resumed.truncate_after(128)
    again = [evaluation(64, 1), evaluation(128, 2), evaluation(128, 3), evaluation(192, 4)]
    taken = [resumed.write(each) is not None for each in again]
    resumed.close()
    assert taken == [False, False, True, True]
    rows = [(row.env_steps, row.updates) for row in read_rows(tmp_path / "metrics.jsonl")]
    assert rows == [(64, 1), (128, 2), (128, 2), (128, 3), (192, 4)]


def test_resume_at_the_last_step_sets_nothing_aside(tmp_path: Path) -> None:
    for steps in ((100, 200), (300,)):
        writer = writer_in(tmp_path)
        if steps == (300,):
            writer.truncate_after(200)
        for step in steps:
            writer.write(record(step, a=1.0))
        writer.close()
    assert not (tmp_path / "metrics.superseded.jsonl").exists()
    assert [row.env_steps for row in read_rows(tmp_path / "metrics.jsonl")] == [100, 200, 300]


def test_long_keys_with_the_same_start_stay_apart(tmp_path: Path) -> None:
    first, second = "x" * 300 + "1", "x" * 300 + "2"
    writer = writer_in(tmp_path)
    writer.write(record(1, **{first: 1.0, second: 2.0}))
    writer.close()
    (row,) = read_rows(tmp_path / "metrics.jsonl")
    assert row.values == {f"train/{first}": 1.0, f"train/{second}": 2.0}


def test_values_that_are_not_finite_become_null_and_break_no_line(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(Record(1, 0, 0.0, {"a": math.nan, "b": math.inf, "c": 2.0}))
    writer.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text)["values"] == {"train/a": None, "train/b": None, "train/c": 2.0}


def test_values_of_a_wrong_type_never_raise(tmp_path: Path) -> None:
    reports: list[str] = []
    values = {"a": np.float32(0.5), "b": 10**400, "c": "no number", "d": None, "e": np.int64(3)}
    writer = writer_in(tmp_path, reports)
    writer.write(Record(1, 0, 0.0, values))  # type: ignore[arg-type]
    writer.close()
    (row,) = read_rows(tmp_path / "metrics.jsonl")
    assert list(row.values.values()) == [0.5, None, None, None, 3.0]
    assert reports == []


def test_record_without_values_still_marks_its_step(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(record(64))
    writer.close()
    assert [row.env_steps for row in read_rows(tmp_path / "metrics.jsonl")] == [64]


def test_full_disk_is_reported_once_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    reports: list[str] = []
    writer = writer_in(tmp_path, reports)
    for step in range(10):
        writer.write(record(step, a=1.0))
    writer.close()
    assert len(reports) == 1 and "metrics.jsonl" in reports[0]


def test_failure_to_set_rows_aside_is_reported_and_not_raised(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    writer.write(record(1, a=1.0))
    writer.write(record(2, a=1.0))
    (tmp_path / "metrics.superseded.jsonl").mkdir()
    reports: list[str] = []
    resumed = writer_in(tmp_path, reports)
    resumed.truncate_after(1)
    resumed.write(record(2, a=1.0))
    resumed.close()
    writer.close()
    assert len(reports) == 1 and "both the old and the new" in reports[0]


def test_failures_are_logged_unless_told_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = MetricsWriter(tmp_path / "missing")
    with caplog.at_level(logging.WARNING):
        writer.write(record(1, a=1.0))
    assert "can't write" in caplog.text


def test_what_was_ever_written_is_known_by_its_last_step(tmp_path: Path) -> None:
    writer = writer_in(tmp_path)
    for step in (100, 200, 300):
        writer.write(record(step, a=1.0))
    writer.write(record(250, b=1.0))
    writer.truncate_after(100)
    assert writer.written() == {"train/a": 300, "train/b": 250}
    writer.close()
