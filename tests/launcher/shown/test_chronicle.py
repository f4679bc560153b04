"""What is told and kept of a run."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fast_core.launcher.shown.chronicle import Chronicle
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.screens.served import Served
from tests.tools.made_runs import made_run


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_token_of_the_page_is_told_to_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    told: list[str] = []

    class Progress:
        def say(self, text: str, level: str) -> None:
            told.append(text)

    run = RunDirectory(made_run(tmp_path))
    progress: Any = Progress()
    with (tmp_path / "slurm.out").open("w") as screen:
        os.fchmod(screen.fileno(), mode)
        monkeypatch.setattr(sys, "stdout", screen)
        with closing(Chronicle(run, progress, "", None, lambda: 0.0)) as chronicle:
            chronicle.page(Served("http://127.0.0.1:8420/", 8420, 7, "secret"))
    (text,) = told
    assert ("?token=secret" in text) is (mode == 0o600)
    assert (f"`fastloop watch {run.path}` shows it" in text) is (mode == 0o644)
    assert "secret" not in run.events.read_text()
