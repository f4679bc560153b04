"""Reading a run, also while it is being written, and how one ended."""

from __future__ import annotations

import json
import pickle
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from fast_core import Run, RunFailed, RunInterrupted
from fast_core.api.columns import Columns
from fast_core.api.runs import result_of
from fast_core.errors import ConfigError, FastLoopError
from fast_core.launcher import Outcome
from fast_core.messages import Failed
from fast_core.monitor.view import EvaluationView, RunSummary
from tests.launcher.trained_run import make_trained

ROWS = [
    {"env_steps": 10, "updates": 1, "time_s": 0.5, "values": {"train/loss": 2.0}},
    {"env_steps": 20, "updates": 1, "time_s": 0.7, "values": {"eval/return_mean": 5.0}},
    {"env_steps": 30, "updates": 3, "time_s": 0.9, "values": {"train/loss": None, "new": 1.0}},
]


def lines(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_run_is_read_as_columns(tmp_path: Path) -> None:
    made = make_trained(tmp_path, checkpoints=2)
    made.metrics.write_text(lines(ROWS))
    run = Run(tmp_path / "made")  # the newest of this name
    assert run.directory == made.path and repr(run) == f"Run({str(made.path)!r})"
    metrics = run.metrics
    assert list(metrics) == ["env_steps", "updates", "time_s", "train/loss", "new"]
    assert metrics["env_steps"].tolist() == [10, 30] and metrics.rows == 2
    assert metrics["env_steps"].dtype == np.int64
    np.testing.assert_equal(metrics["train/loss"], [2.0, np.nan])
    np.testing.assert_equal(metrics["new"], [np.nan, 1.0])
    assert run.evaluations["eval/return_mean"].tolist() == [5.0]
    assert [checkpoint.version for checkpoint in run.checkpoints] == sorted(
        checkpoint.version for checkpoint in run.checkpoints
    )
    assert len(run.checkpoints) == 2 and run.checkpoints[0].path.is_dir()
    assert run.config.name == "made" or run.config.environment.id
    assert (run.crash, run.versions, run.events) == (None, [], [])
    with pytest.raises(KeyError, match=r"no column 'train/los'; there are env_steps"):
        metrics["train/los"]


def test_run_that_is_being_written_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    made = make_trained(tmp_path)
    run = Run(made.path)
    assert run.metrics.rows == 0 and run.evaluations.rows == 0 and "env_steps" in run.metrics
    text = lines(ROWS)
    for end in range(len(text)):
        made.metrics.write_text(text[:end])
        whole = text[:end].count("\n") + (text[end:][:1] == "\n")
        assert run.metrics.rows + run.evaluations.rows == whole
    entry = '{"time_s":1.0,"wall":"now","what":"start","why":"ready","facts":{}}\n'
    made.events.write_text(entry + entry[:20])
    assert [(event.what, event.why) for event in run.events] == [("start", "ready")]
    (made.checkpoints / "000000000999").mkdir()
    assert len(run.checkpoints) == 1


def test_run_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run at .*no such folder"):
        Run(tmp_path / "nothing")


def test_columns_become_a_data_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Columns([])
    frame = columns.to_pandas()
    assert list(frame.columns) == ["env_steps", "updates", "time_s"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FastLoopError, match="`pip install pandas`"):
        columns.to_pandas()


def outcome(directory: Path, reason: str, number: signal.Signals | None = None) -> Outcome:
    best = EvaluationView(10.0, 1.5, 32, 400)
    summary = RunSummary(
        outcome=reason,  # type: ignore[arg-type]
        text="why",
        run_name="made",
        run_directory=str(directory),
        elapsed_s=61.0,
        env_steps=12_345,
        updates=64,
        session_s=1.0,
        session_env_steps=1,
        session_updates=1,
        best=best,
    )
    cause = Failed("env-0", "stepping", "ValueError: no", "its traceback", {})
    failed = reason == "failed"
    return Outcome(
        reason,  # type: ignore[arg-type]
        "why",
        directory,
        summary,
        number,
        cause if failed else None,
        "first cause last" if failed else "",
    )


def test_resume_refuses_another_environment_that_would_have_to_be_sent(tmp_path: Path) -> None:
    """It would go on with the code that the run has, without a word."""
    run = Run(make_trained(tmp_path).path)
    with pytest.raises(ConfigError, match=r"train\(run.config, overrides, resume=run\)"):
        run.resume({"environment": lambda: None})


def test_result_says_how_it_ended(tmp_path: Path) -> None:
    made = make_trained(tmp_path)
    result = result_of(outcome(made.path, "finished"))
    assert (result.reason, result.message, result.env_steps) == ("finished", "why", 12_345)
    assert result.best is not None and (result.best.mean, result.best.version) == (10.0, 32)
    assert result.evaluation is None
    assert repr(result).splitlines() == [
        "finished         why",
        "env steps        12,345",
        "updates          64",
        "time             1 min 01 s",
        "best evaluation  10.0 ± 1.50 (v32) at 400 env steps",
        f"run directory    {made.path}",
    ]


def test_failure_is_an_exception_that_can_be_sent(tmp_path: Path) -> None:
    made = make_trained(tmp_path)
    with pytest.raises(RunFailed, match="first cause last") as raised:
        result_of(outcome(made.path, "failed"))
    error = pickle.loads(pickle.dumps(raised.value))
    assert (error.directory, error.node) == (made.path, "env-0")
    assert (error.error, error.traceback) == ("ValueError: no", "its traceback")
    assert str(error) == "first cause last"


def test_ctrl_c_is_given_on_to_whom_it_would_have_reached(tmp_path: Path) -> None:
    made = make_trained(tmp_path, checkpoints=0)
    with pytest.raises(RunInterrupted) as raised:
        result_of(outcome(made.path, "interrupted", signal.SIGINT))
    assert raised.value.result is not None and raised.value.result.reason == "interrupted"
    assert "resume" not in str(raised.value), "there is nothing to resume"
    with pytest.raises(KeyboardInterrupt):  # it came when the run had ended by itself
        result_of(outcome(made.path, "finished", signal.SIGINT))
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        assert result_of(outcome(made.path, "interrupted", signal.SIGINT)).reason == "interrupted"
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]


def test_run_that_never_began_has_no_result(tmp_path: Path) -> None:
    never = Outcome("interrupted", "Ctrl-C before training began", None, signal=signal.SIGINT)
    with pytest.raises(RunInterrupted, match="before training began") as raised:
        result_of(never)
    assert raised.value.result is None
