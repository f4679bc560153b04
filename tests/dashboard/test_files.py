"""The page of a run that does not serve it: from its files, and from what it says if it goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fast_core.dashboard import files
from fast_core.dashboard.files import RunOnFile
from fast_core.dashboard.source import End, Hello
from fast_core.messages.requests import NodeStatus, Status
from fast_core.monitor.run_directory import RunDirectory
from tests.process.harness import eventually
from tests.tools.made_runs import made_run


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunOnFile]:
    source = RunOnFile(RunDirectory(made_run(tmp_path, values=[1.0, 2.0])))
    yield source
    source.close()


def test_ended_run_is_shown_from_its_files(run: RunOnFile) -> None:
    hello = run.hello()
    assert (hello.run.running, hello.frames, hello.tiles) == (False, False, ())
    assert hello.run.outcome is not None and hello.run.outcome.startswith("finished")
    assert hello.why_no_frames.startswith("The run has ended")
    assert hello.history["evaluation"]["eval/return_mean"] == [1.0, 2.0]
    assert run.now().phase == "finished"
    assert run.news() == []


def test_run_in_a_folder_whose_name_is_no_unicode_is_shown(tmp_path: Path) -> None:
    source = RunOnFile(RunDirectory(made_run(tmp_path / os.fsdecode(b"\xff"), values=[1.0])))
    assert "\\udcff" in msgspec.json.decode(msgspec.json.encode(source.hello()))["run"]["directory"]
    source.close()


def test_run_that_goes_on_is_asked_while_somebody_looks(
    run: RunOnFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = NodeStatus("env-0", "acting", 0.5, 3.0, 1.0, 2)
    status = Status("checkpointing", 640, 9.0, 1, 7.0, updates=12, nodes=(node,))
    monkeypatch.setattr(files, "ASK_S", 0.01)
    monkeypatch.setattr(run, "_ask", lambda: status)
    monkeypatch.setattr(files, "holder", lambda path: 7)
    monkeypatch.setattr(files, "read_state", running)
    (hello,) = run.news()
    assert isinstance(hello, Hello) and hello.run.running
    assert "fastloop stop" in hello.why_no_frames
    assert f"fastloop resume {hello.run.directory} --dashboard" in hello.why_no_frames
    eventually(lambda: run.now().nodes, "an answer")
    now = run.now()
    assert (now.phase, now.env_steps, now.updates, now.elapsed_s) == ("checkpointing", 640, 12, 7.0)
    (shown,) = now.nodes
    assert (shown.name, shown.state) == ("env-0", "acting")
    monkeypatch.undo()
    hello, end = run.news()
    assert isinstance(hello, Hello) and isinstance(end, End)
    assert end.text.startswith("finished")


def test_older_run_answers_without_its_nodes(run: RunOnFile) -> None:
    run._status = Status("training", 640, 9.0, 1, 7.0)
    now = run.now()
    assert (now.phase, now.nodes, now.updates) == ("training", (), 0)


def running(path: Path, most_bytes: int = 0) -> object:
    from fast_core.monitor.run_state import RunState

    return RunState(path=path, state="running", pid=7, algorithm="ppo", environment="x", seed=0)
