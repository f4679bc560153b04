"""What W&B is given, with a stand-in for it; tests/process/test_sinks.py runs the real one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fast_core.messages.metrics import MetricsRow, RunStart
from fast_core.monitor.wandb_sink import WandbSink


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `rows` logs to a run that is begun by the stand-in."""
    rows: list[dict[str, Any]] = []
    run = SimpleNamespace(define_metric=lambda *_, **__: None, log=rows.append)

    def video(path: str, *, format: str) -> str:
        assert Path(path).exists() and format == "mp4"
        return Path(path).name

    wandb = SimpleNamespace(init=lambda **_: run, Video=video)
    monkeypatch.setattr("importlib.import_module", lambda _: wandb)
    return rows


def started(directory: Path, **written: int) -> WandbSink:
    sink = WandbSink()
    sink.start(RunStart("told", directory, {}, None, written))
    return sink


def test_film_that_is_not_kept_any_more_costs_no_row(
    tmp_path: Path, logged: list[dict[str, Any]]
) -> None:
    """W&B may take longer to begin than newer films take to replace it."""
    (tmp_path / "new.mp4").touch()
    started(tmp_path).rows(
        [
            MetricsRow(64, 1, 0.1, {"a": 1.0}, {"film": "old.mp4"}),
            MetricsRow(128, 2, 0.2, {"a": 2.0}, {"film": "new.mp4"}),
        ]
    )
    assert logged == [
        {"env_steps": 64, "updates": 1, "time_s": 0.1, "a": 1.0},
        {"env_steps": 128, "updates": 2, "time_s": 0.2, "a": 2.0, "film": "new.mp4"},
    ]


def test_what_was_written_before_a_resume_is_not_logged_again(
    tmp_path: Path, logged: list[dict[str, Any]]
) -> None:
    sink = started(tmp_path, a=64, b=128)
    sink.rows([MetricsRow(n, n, 0.0, {"a": 1.0, "b": 2.0}) for n in (64, 128, 192)])
    assert [{"a", "b"} & row.keys() for row in logged] == [{"a"}, {"a", "b"}]
