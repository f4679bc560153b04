"""How a run stands is read from its directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from fast_core.messages import Failed
from fast_core.monitor.crash import survived_report
from fast_core.monitor.run_directory import RunDirectory
from fast_core.monitor.run_lock import holder
from fast_core.monitor.run_state import TRAINING_RETURN, read_state
from tests.tools.made_runs import event, made_run, write


def test_finished_run_is_as_its_summary_says(tmp_path: Path) -> None:
    state = read_state(made_run(tmp_path, "seed=3", values=[1.0, 9.0, 4.0]))
    assert (state.state, state.text) == ("finished", "finished as told")
    assert (state.algorithm, state.environment, state.seed) == ("ppo", "CartPole-v1", 3)
    assert (state.env_steps, state.best, state.last) == (300, 9.0, 4.0)


def test_failed_run_shows_its_first_cause(tmp_path: Path) -> None:
    crash = "First cause: node 'env-1' failed.\n\nTraceback\nRuntimeError: bad joint 7\n"
    state = read_state(made_run(tmp_path, outcome="failed", crash=crash))
    assert (state.state, state.text) == ("failed", "RuntimeError: bad joint 7")


def test_run_without_an_end_was_killed(tmp_path: Path) -> None:
    state = read_state(made_run(tmp_path, values=[2.0, None], outcome=None))
    assert (state.state, state.text) == ("interrupted", "it was killed")
    assert (state.env_steps, state.best) == (200, 2.0)


def test_end_of_an_earlier_part_is_not_the_end(tmp_path: Path) -> None:
    path = made_run(tmp_path)
    run = RunDirectory(path)
    write(run.events, [event("summary", "x", {"outcome": "finished"}), event("resume", "more")])
    assert read_state(path).state == "interrupted"


def test_run_is_running_while_a_process_holds_its_lock(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[1.0], outcome=None)
    lock = RunDirectory(path).lock()
    assert holder(path / "lock") == os.getpid()
    state = read_state(path)
    assert (state.state, state.pid) == ("running", os.getpid())
    lock.close()
    assert read_state(path).state == "interrupted"


def test_lock_of_a_process_that_is_gone_or_is_another_by_now_is_not_held(tmp_path: Path) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "lock").write_text(f"{other.pid}\n")
    assert holder(tmp_path / "lock") is None
    other.communicate(b"\n")
    assert holder(tmp_path / "lock") is None
    (tmp_path / "lock").write_text("?")
    assert holder(tmp_path / "lock") is None


def test_quarantined_evaluation_is_never_the_best(tmp_path: Path) -> None:
    values = [2.0, 9.0]
    state = read_state(made_run(tmp_path, values=values, quarantined={200: 0.1}, outcome=None))
    assert (state.best, state.last) == (2.0, 9.0)


def test_files_that_grow_are_not_read_whole(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[1.0] * 2000, outcome=None)
    assert read_state(path, 1000).env_steps == 200_000
    with RunDirectory(path).metrics.open("a") as file:
        file.write('{"env_steps": 300000, "upd')  # being written
    assert read_state(path, 1000).env_steps == 200_000


def test_run_that_survived_its_failures_has_not_failed(tmp_path: Path) -> None:
    report = survived_report(Failed("env-1", "stepping", "killed", "", {}), incarnation=1)
    assert read_state(made_run(tmp_path, crash=report)).state == "finished"


def test_last_evaluation_is_found_however_long_training_went_on_after_it(tmp_path: Path) -> None:
    path = made_run(tmp_path, values=[3.0])
    row = {"env_steps": 200, "updates": 2, "time_s": 1.0, "values": {TRAINING_RETURN: 8.0}}
    with RunDirectory(path).metrics.open("a") as file:
        file.write((json.dumps(row) + "\n") * 1000)
    state = read_state(path)
    assert (state.env_steps, state.best, state.last) == (100, 3.0, 3.0)
    assert read_state(path, 1000).last == 8.0
