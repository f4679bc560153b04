"""FT-05: what decides about life and death reads the monotonic clock only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALL = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "localtime"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
}
# Only for people: names of run directories, stamps in journals and logs.
FOR_PEOPLE = {
    "fast_core/launcher/rerun.py",
    "fast_core/launcher/run.py",
    "fast_core/launcher/session.py",
    "fast_core/launcher/shown/chronicle.py",
}


def wall_clocks(text: str) -> list[str]:
    return [
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in WALL
    ]


def sources() -> list[Path]:
    folders = ("launcher", "messages", "scheduler", "nodes", "envs", "memory")
    found = [path for name in folders for path in (ROOT / "fast_core" / name).rglob("*.py")]
    return [*found, ROOT / "fast_core" / "node.py"]


def test_liveness_code_reads_no_wall_clock() -> None:
    users = {
        str(path.relative_to(ROOT)) for path in sources() if wall_clocks(path.read_text("utf-8"))
    }
    assert users <= FOR_PEOPLE


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import time\ntime.time()", ["time.time"]),
        ("from datetime import datetime\nclock = datetime.now", ["datetime.now"]),
        ("import time\ntime.monotonic()", []),
    ],
)
def test_check_sees_wall_clocks(text: str, found: list[str]) -> None:
    assert wall_clocks(text) == found
