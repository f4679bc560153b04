"""Before a run goes on: a checkpoint of gigabytes is not read in silence, nor left half-written."""

from __future__ import annotations

import importlib
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.config import file as config_file
from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher import run as module
from fast_core.launcher.run import CHECKING_S, Checking, resume
from fast_core.monitor.run_directory import RunDirectory
from fast_core.system.interrupts import Interrupted, Interrupts
from tests.nodes.stage import make_config


def test_reading_for_long_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, lines = SimpleNamespace(now_s=100.0), list[str]()
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    interrupts = Interrupts()
    checking = Checking(interrupts, SimpleNamespace(say=lambda text, level: lines.append(text)))  # type: ignore[arg-type]
    told = []
    for tenth in range(65):
        clock.now_s = 100.0 + tenth / 10
        checking()
        told.append(len(lines))
    assert told[int(10 * CHECKING_S) - 1] == 0, "what is short needs no words"
    assert told[-1] == 2 and "reading the checkpoint" in lines[0]
    interrupts.count = 1
    with pytest.raises(Interrupted):
        checking()


def test_what_a_killed_run_had_half_written_makes_room(tmp_path: Path) -> None:
    run = RunDirectory.create(str(tmp_path), "made", datetime(2025, 1, 1))
    run.write_config(config_file.dumps(make_config()))
    partial = run.checkpoints / "000000000007.tmp"
    partial.mkdir()
    (partial / "replay-0.bin").write_bytes(b"gigabytes")
    with pytest.raises(CheckpointError, match="none was written yet"):
        resume(run.path, [])
    assert list(run.checkpoints.iterdir()) == []


@pytest.mark.parametrize("change", ["name=other", "directory=elsewhere"])
def test_resume_under_another_name_is_refused_with_what_makes_a_new_run(
    tmp_path: Path, change: str
) -> None:
    run = RunDirectory.create(str(tmp_path), "made", datetime(2025, 1, 1))
    run.write_config(config_file.dumps(make_config()))
    with pytest.raises(ConfigError, match=f"goes on in its own folder.* --resume {run.path}"):
        resume(run.path, [change])


def test_functions_of_the_launcher_are_found_in_its_package() -> None:
    package = importlib.import_module("fast_core.launcher")
    assert (package.launch, package.resume) == (module.launch, resume)
    assert package.validate is module.validate
    with pytest.raises(AttributeError, match="no attribute 'lunch'"):
        package.lunch  # noqa: B018
