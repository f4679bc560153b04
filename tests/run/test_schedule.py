"""Recorded schedules on disk: what a killed or refused writer leaves can be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fast_core.errors import CheckpointError
from fast_core.messages.launching import Tick
from fast_core.run.schedule import (
    FORMAT,
    Entry,
    ScheduleHeader,
    ScheduleWriter,
    View,
    next_part,
    parts,
    read_schedule,
    read_share,
)


def header(format: int = FORMAT) -> ScheduleHeader:
    return ScheduleHeader(
        format=format,
        fingerprint={"fastloop": "0.1"},
        config="name: toy\n",
        checkpoint="",
        started_s=1.0,
        moments=(),
        callbacks_save=False,
        auto_degree=False,
    )


def fail(text: str) -> None:
    raise AssertionError(text)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = next_part(tmp_path)
    writer = ScheduleWriter(path, fail)
    writer.write(header(), 0.0)
    entries = [Entry(0.1 * index, Tick(), index) for index in range(5000)]
    for entry in entries:
        writer.write(entry, entry.now_s)
    writer.close()
    writer.close()
    read = read_schedule(path)
    assert (read.header, read.entries) == (header(), entries)
    assert parts(tmp_path) == [path]
    assert next_part(tmp_path).name == "part-1.gz"


def test_what_a_killed_writer_left_is_read_to_its_last_whole_entry(tmp_path: Path) -> None:
    path = next_part(tmp_path)
    writer = ScheduleWriter(path, fail)
    writer.write(header(), 0.0)
    entries = [Entry(2.0 * index, Tick()) for index in range(100)]  # each is flushed
    for entry in entries:
        writer.write(entry, entry.now_s)
    whole = path.read_bytes()
    assert read_schedule(path).entries == entries
    for lost in range(1, 200):
        path.write_bytes(whole[:-lost])
        read = read_schedule(path).entries
        assert read == entries[: len(read)]
    assert 0 < len(read) < len(entries)
    writer.close()


def test_writer_that_is_refused_says_so_once_and_lets_training_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "schedule").write_text("a file")
    writer = ScheduleWriter(tmp_path / "schedule" / "part-0.gz", said.append)
    writer.write(header(), 0.0)
    writer.close()
    assert len(said) == 1
    assert "training goes on" in said[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "nothing whole stands in the recorded"), (b"no gzip", "can't read the recorded")],
)
def test_file_that_is_no_record_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "part-0.gz"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{says} schedule"):
        read_schedule(path)


def test_record_of_another_format_names_its_version(tmp_path: Path) -> None:
    path = next_part(tmp_path)
    writer = ScheduleWriter(path, fail)
    writer.write(header(format=99), 0.0)
    writer.close()
    with pytest.raises(CheckpointError, match=r"format 99, this FastLoop reads 1.*FastLoop 0.1"):
        read_schedule(path)


def test_record_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    part = tmp_path / "part-0.gz"
    part.write_bytes(gzip.compress(bytes(1 << 26)))
    with pytest.raises(CheckpointError, match="unpacks to more than"):
        read_schedule(part)
    with pytest.raises(CheckpointError, match="unpacks to more than"):
        read_share(part, View)
