"""What is written down of a run, and what of one that could not begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.launcher.listener import NewRun
from fast_core.launcher.rerunning.recorder import Recorder
from fast_core.memory import StatsColumn
from fast_core.messages import Failed, Late
from fast_core.messages.launching import Tick
from fast_core.run.schedule import parts, read_schedule
from tests.nodes.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_run_that_could_not_begin_leaves_no_part(stage: Stage, tmp_path: Path) -> None:
    """Else it would be the last one, which a rerun takes."""
    Recorder(stage.plan, "name: toy", lambda text: None).close()
    assert parts(tmp_path) == []


def test_events_are_written_with_their_times_and_of_a_failure_the_weights(
    stage: Stage, tmp_path: Path
) -> None:
    recorder = Recorder(stage.plan, "name: toy", lambda text: None)
    stats = stage.memory.all_stats()
    settings = SimpleNamespace(moments=("start",), callbacks_save=True, auto_degree=False)
    roster = SimpleNamespace(stats=stats)
    recorder.begin(NewRun(None, settings, roster, 3.0))  # type: ignore[arg-type]
    stats["env-0"].words[StatsColumn.VERSION] = 40
    failed = Failed("env-0", "stepping", "bad joint 7", "", {})
    for now_s, event in enumerate((Tick(), Late("env-1"), failed), 4):
        recorder.hear(event, float(now_s))
    recorder.close()
    (part,) = parts(tmp_path)
    schedule = read_schedule(part)
    assert (schedule.header.started_s, schedule.header.moments) == (3.0, ("start",))
    found = [(entry.now_s, entry.event, entry.version) for entry in schedule.entries]
    assert found == [(4.0, Tick(), -1), (6.0, failed, 40)]
