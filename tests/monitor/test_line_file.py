from __future__ import annotations

import os
from pathlib import Path

import pytest

from fast_core.monitor.line_file import LineFile


def test_lines_are_on_disk_before_the_file_is_closed(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a", report=[].append)
    assert file.write("one") and file.write("two")
    assert (tmp_path / "a").read_text() == "one\ntwo\n"
    file.close()
    file.close()


def test_closed_file_opens_again_and_appends(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a", report=[].append)
    file.write("one")
    file.close()
    file.write("two")
    file.close()
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


def test_line_cut_short_by_a_killed_writer_damages_no_other(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"a": 1}\n{"b"')
    file = LineFile(tmp_path / "a", report=[].append)
    file.write("three")
    file.write("four")
    file.close()
    assert (tmp_path / "a").read_text() == '{"a": 1}\n{"b"\nthree\nfour\n'


def test_newline_inside_a_line_does_not_split_it(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "a", report=[].append)
    file.write("one\ntwo \ud800")
    file.close()
    assert (tmp_path / "a").read_text() == "one two \\ud800\n"


def test_full_disk_is_reported_once_and_counted() -> None:
    reports: list[str] = []
    file = LineFile(Path("/dev/full"), report=reports.append)
    results = [file.write("x") for _ in range(5)]
    file.close()
    assert results == [False] * 5
    assert file.dropped == 5
    assert len(reports) == 1
    assert "/dev/full" in reports[0] and "No space left" in reports[0]


def test_missing_folder_never_raises(tmp_path: Path) -> None:
    reports: list[str] = []
    file = LineFile(tmp_path / "missing" / "a", report=reports.append)
    assert not file.write("x")
    assert len(reports) == 1


def test_line_that_was_half_written_is_closed_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = LineFile(tmp_path / "a", report=[].append)
    file.write("one")
    real_write, calls = os.write, iter([3, None])

    def failing_write(fd: int, data: memoryview) -> int:
        size = next(calls)
        if size is None:
            raise OSError(28, "No space left on device")
        return real_write(fd, data[:size])

    monkeypatch.setattr(os, "write", failing_write)
    assert not file.write("second")
    monkeypatch.undo()
    assert file.write("three")
    file.close()
    assert (tmp_path / "a").read_text() == "one\nsec\nthree\n"
