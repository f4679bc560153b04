"""What `fastloop rerun` refuses before it does anything, and what it says then."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from fast_core.errors import CheckpointError, ConfigError
from fast_core.launcher.rerun import rerun
from fast_core.launcher.rerunning.entries import entry
from fast_core.launcher.rerunning.fingerprint import differences, fingerprint
from fast_core.messages import Trained
from fast_core.monitor.run_directory import RunDirectory
from fast_core.run.schedule import FORMAT, ScheduleHeader, ScheduleWriter, next_part

CONFIG = """
name: toy
environment: {id: CartPole-v1}
algorithm: {name: ppo}
stop: {updates: 8}
"""


def fail(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create(tmp_path, "toy", datetime(2026, 1, 1))
    made.write_config(CONFIG)
    return made


def record(run: RunDirectory, *, checkpoint: str = "", **changed: str) -> None:
    writer = ScheduleWriter(next_part(run.path), fail)
    header = ScheduleHeader(
        format=FORMAT,
        fingerprint={**fingerprint(), **changed},
        config=CONFIG,
        checkpoint=checkpoint,
        started_s=0.0,
        moments=(),
        callbacks_save=False,
        auto_degree=False,
    )
    writer.write(header, 0.0)
    writer.write(entry(Trained("optimizer-0", 0, 8, 8, 0, 0.0, 0, {}), 1.0), 1.0)
    writer.close()


def test_run_that_was_not_recorded_says_how_to_record(run: RunDirectory) -> None:
    with pytest.raises(ConfigError, match=r"not recorded.*config.yaml diagnostics.schedule=true"):
        rerun(run.path)


def test_advice_of_a_run_in_a_folder_with_spaces_can_be_pasted(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "my toy", datetime(2026, 1, 1))
    run.write_config(CONFIG)
    with pytest.raises(ConfigError, match=f"launch '{run.config}' diagnostics.schedule=true"):
        rerun(run.path)


def test_rerun_of_a_rerun_names_the_recorded_run(run: RunDirectory) -> None:
    record(run)
    again = RunDirectory.create(run.path, "rerun", datetime(2026, 1, 1))
    again.write_config(CONFIG)
    with pytest.raises(ConfigError, match=f"is a rerun itself.*`fastloop rerun {run.path}`"):
        rerun(again.path)


def test_record_without_a_whole_piece_is_refused(run: RunDirectory) -> None:
    record(run)
    (run.path / "schedule" / "part-0.gz").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"nothing whole stands in .*part-0.gz"):
        rerun(run.path)


def test_other_numerics_are_refused_by_name(run: RunDirectory) -> None:
    record(run, torch="1.0", OMP_NUM_THREADS="7")
    with pytest.raises(ConfigError) as caught:
        rerun(run.path)
    text = str(caught.value)
    assert "torch (recorded with 1.0, here" in text
    assert "OMP_NUM_THREADS (recorded with 7, here" in text
    assert "numpy (" not in text
    assert not (run.path / "rerun").exists()


def test_features_of_the_processor_are_named_one_by_one() -> None:
    here = fingerprint()
    assert differences(here, here) == []
    then = {**here, "cpu features": here["cpu features"] + " avx1024"}
    assert differences(then, here) == ["cpu features (no avx1024)"]
    assert differences(here, then) == ["cpu features (avx1024 came)"]


@pytest.mark.parametrize(
    ("until", "says"),
    [
        ("update=9", "must be at most update=8, with which the record of .* ends; got 'update=9'"),
        ("update=0", "must be update=N with a number from 1 on; got 'update=0'"),
        ("12", "must be update=N with a number from 1 on; got '12'"),
    ],
)
def test_end_that_is_not_in_the_record_is_refused(run: RunDirectory, until: str, says: str) -> None:
    record(run)
    with pytest.raises(ConfigError, match=says):
        rerun(run.path, until)
    assert not (run.path / "rerun").exists()


def test_checkpoint_that_is_gone_is_named(run: RunDirectory) -> None:
    record(run, checkpoint="000000000400")
    with pytest.raises(CheckpointError, match=r"went on from checkpoint 000000000400.*part-0.che"):
        rerun(run.path)
