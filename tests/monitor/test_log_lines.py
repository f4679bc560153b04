from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from fast_core.messages import LogLine
from fast_core.monitor.log_lines import NodeLogs, is_warning, log_text
from fast_core.monitor.run_directory import RunDirectory

WALL = datetime(2025, 3, 9, 12, 0, 5, tzinfo=UTC)


def logs_in(path: Path, reports: list[str]) -> tuple[RunDirectory, NodeLogs]:
    run = RunDirectory.create(path, "a", WALL)
    return run, NodeLogs(run, wall=lambda: WALL, report=reports.append)


def test_every_screen_line_carries_its_node() -> None:
    assert log_text(LogLine("env-1", "ERROR", "a\nb\r\x1b[0m")) == (
        "env-1 error: a\nenv-1 error: b\nenv-1 error: �[0m"
    )
    assert log_text(LogLine("env-1", "INFO", "")) == "env-1 info: "


def test_warnings_are_told_from_information() -> None:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    assert [is_warning(LogLine("n", level, "")) for level in levels] == [0, 0, 1, 1, 1]


def test_lines_of_many_nodes_stay_whole_and_in_order(tmp_path: Path) -> None:
    run, logs = logs_in(tmp_path, [])
    for number in range(100):
        for node in range(16):
            logs.write(LogLine(f"env-{node}", "INFO", f"{number} " + chr(97 + node) * 4096))
    logs.close()
    for node in range(16):
        lines = run.log(f"env-{node}").read_text().splitlines()
        expected = [f"{number} " + chr(97 + node) * 4096 for number in range(100)]
        assert [line.split(" ", 2)[2] for line in lines] == expected


def test_multi_line_records_take_a_stamp_on_every_line(tmp_path: Path) -> None:
    run, logs = logs_in(tmp_path, [])
    logs.write(LogLine("env-0", "ERROR", "Traceback:\n  x"))
    logs.close()
    assert run.log("env-0").read_text() == (
        "2025-03-09T12:00:05.000+00:00 ERROR Traceback:\n2025-03-09T12:00:05.000+00:00 ERROR   x\n"
    )


def test_failing_disk_is_told_once_and_never_raised(tmp_path: Path) -> None:
    reports: list[str] = []
    run, logs = logs_in(tmp_path, reports)
    run.log("env-0").symlink_to("/dev/full")
    for _ in range(3):
        logs.write(LogLine("env-0", "INFO", "x"))
    logs.close()
    assert len(reports) == 1
