from __future__ import annotations

import json
from pathlib import Path

import pytest

from fast_core.monitor import metrics_file
from fast_core.monitor.metrics_file import read_rows, supersede


def line(env_steps: int) -> str:
    row = {"env_steps": env_steps, "updates": 1, "time_s": 0.5, "values": {"a": 1.5, "b": None}}
    return json.dumps(row) + "\n"


def test_rows_are_read_in_order_and_null_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(line(1) + line(2))
    rows = list(read_rows(path))
    assert [row.env_steps for row in rows] == [1, 2]
    assert rows[0].values == {"a": 1.5, "b": None}


def test_line_cut_short_or_foreign_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(line(1).encode() + b'{"env_steps": 2, "upd\n\xff\xfe\n\n' + line(3).encode())
    assert [row.env_steps for row in read_rows(path)] == [1, 3]
    assert list(read_rows(tmp_path / "missing")) == []


def test_rows_beyond_the_step_are_moved_and_the_step_itself_is_kept(tmp_path: Path) -> None:
    path, old = tmp_path / "metrics.jsonl", tmp_path / "old.jsonl"
    path.write_text("".join(line(step) for step in (500, 600, 601, 700)))
    assert supersede(path, old, 600) == 2
    assert path.read_text() == line(500) + line(600)
    assert old.read_text() == line(601) + line(700)


def test_second_resume_adds_to_what_was_set_aside(tmp_path: Path) -> None:
    path, old = tmp_path / "metrics.jsonl", tmp_path / "old.jsonl"
    path.write_text(line(1) + line(2) + line(3))
    supersede(path, old, 2)
    supersede(path, old, 1)
    assert path.read_text() == line(1)
    assert old.read_text() == line(3) + line(2)


def test_unreadable_line_is_set_aside_and_not_lost(tmp_path: Path) -> None:
    path, old = tmp_path / "metrics.jsonl", tmp_path / "old.jsonl"
    path.write_text(line(1) + '{"torn')
    assert supersede(path, old, 5) == 1
    assert path.read_text() == line(1)
    assert old.read_text() == '{"torn\n'


def test_nothing_to_move_leaves_the_folder_as_it_is(tmp_path: Path) -> None:
    path, old = tmp_path / "metrics.jsonl", tmp_path / "old.jsonl"
    assert supersede(path, old, 5) == 0
    path.write_text(line(1))
    assert supersede(path, old, 5) == 0
    assert [child.name for child in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_crash_between_the_two_files_loses_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = tmp_path / "metrics.jsonl", tmp_path / "old.jsonl"
    path.write_text(line(1) + line(2))
    written: list[Path] = []

    def fail_at_second(target: Path, data: bytes) -> None:
        written.append(target)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        target.write_bytes(data)

    monkeypatch.setattr(metrics_file, "write_durably", fail_at_second)
    with pytest.raises(OSError, match="No space"):
        supersede(path, old, 1)
    assert line(2) in path.read_text() and line(2) in old.read_text()
