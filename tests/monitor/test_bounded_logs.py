from __future__ import annotations

import os
from pathlib import Path

import pytest

from fast_core.monitor import bounded_logs
from fast_core.monitor.bounded_logs import BoundedLogs

LIMIT = 1000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_logs, "LIMIT_BYTES", LIMIT)


def test_newest_part_of_a_large_log_is_kept_and_who_has_it_open_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "env-0.log"
    writer = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for turn in range(3):
        os.write(writer, f"{turn}\n".encode() * 2 * LIMIT)
        BoundedLogs(tmp_path).look()
        os.write(writer, b"after\n")
        assert (tmp_path / "env-0.log.1").read_bytes() == f"{turn}\n".encode() * (LIMIT // 2)
        first, *rest = path.read_text().splitlines()
        assert "older lines are in env-0.log.1" in first
        assert rest == ["after"]
    os.close(writer)


def test_small_log_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "env-0.log"
    path.write_bytes(b"x" * LIMIT)
    with BoundedLogs(tmp_path):
        pass
    assert path.stat().st_size == LIMIT
    assert list(tmp_path.iterdir()) == [path]


def test_log_that_cannot_be_turned_over_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "env-0.log").write_bytes(b"x" * 2 * LIMIT)
    (tmp_path / "env-0.log.1").mkdir()
    other = tmp_path / "env-1.log"
    other.write_bytes(b"x" * 2 * LIMIT)
    BoundedLogs(tmp_path).look()
    assert other.stat().st_size < LIMIT
