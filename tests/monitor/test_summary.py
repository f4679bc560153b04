from __future__ import annotations

from dataclasses import replace

from fast_core.monitor.summary import summary_rows, summary_text
from fast_core.monitor.view import EvaluationView
from tests.monitor.views import BEST, SUMMARY


def test_summary_tells_outcome_figures_and_how_to_go_on() -> None:
    assert summary_text(SUMMARY).splitlines() == [
        "finished         evaluation of version 2800 reached 475.0",
        "time             1 min 15 s",
        "env steps        300,000 (4,000/s)",
        "updates          4,000 (60.0/s)",
        "best evaluation  475.0 ± 12.1 (v2800) at 180,000 env steps",
        "last evaluation  312.4 ± 88.1 (v3200)",
        "run directory    runs/ppo_cartpole/2025-11-27_22-40-00",
        "evaluate it      fastloop eval runs/ppo_cartpole/2025-11-27_22-40-00",
        "train on         fastloop resume runs/ppo_cartpole/2025-11-27_22-40-00 stop.KEY=VALUE",
    ]


def test_interrupted_run_says_how_to_resume_with_a_path_the_shell_takes() -> None:
    summary = replace(SUMMARY, outcome="interrupted", run_directory="runs/my run/1", warnings=3)
    rows = dict(summary_rows(summary))
    assert rows["go on"] == "fastloop resume 'runs/my run/1'"
    assert rows["warnings"] == "3, see runs/my run/1/logs"


def test_run_of_which_nothing_is_left_names_no_path() -> None:
    gone = replace(SUMMARY, run_directory="", warnings=2, deaths={"env-0": 1}, page=True)
    rows = dict(summary_rows(gone))
    assert rows["warnings"] == "2"
    assert not any(
        "/" in rows[name] or "fastloop" in rows[name]
        for name in rows.keys() - {"env steps", "updates"}
    )


def test_without_a_checkpoint_nothing_is_promised() -> None:
    rows = dict(summary_rows(replace(SUMMARY, outcome="failed", checkpoint="")))
    assert "none was written" in rows["checkpoint"]
    assert not any("fastloop" in text for text in rows.values())


def test_run_that_ended_at_once_has_rates_of_zero() -> None:
    rows = dict(summary_rows(replace(SUMMARY, session_s=0.0, best=BEST, last=BEST)))
    assert rows["env steps"] == "300,000 (0/s)"
    assert "last evaluation" not in rows


def test_outcome_is_wrapped_and_what_is_there_to_be_copied_is_not() -> None:
    long = "/".join(["folder"] * 40)
    lines = summary_text(replace(SUMMARY, text="word " * 50, run_directory=long)).splitlines()
    assert all(len(line) < 120 for line in lines[:2])
    assert lines[1].startswith("                 word")
    assert f"run directory    {long}" in lines


def test_summary_names_the_report() -> None:
    rows = dict(summary_rows(replace(SUMMARY, report="runs/a/report.html")))
    assert rows["report"] == "runs/a/report.html"
    assert "report" not in dict(summary_rows(SUMMARY))


def test_summary_names_the_best_evaluation_of_each_other_environment() -> None:
    others = {"windy": EvaluationView(mean=12.5, std=1.0, version=32, env_steps=64)}
    rows = dict(summary_rows(replace(SUMMARY, others=others)))
    assert rows["best in windy"] == "12.5 ± 1.00 (v32)"


def test_summary_says_who_died_and_how_many_came_back() -> None:
    summary = replace(SUMMARY, deaths={"policy-0": 1, "env-1": 3}, nodes_back=4)
    directory = SUMMARY.run_directory
    assert dict(summary_rows(summary))["restarts"] == (
        f"4 deaths of nodes (env-1 3, policy-0 1), 4 back; see {directory}/crash.txt"
    )
    assert "restarts" not in dict(summary_rows(SUMMARY))


def test_summary_says_how_the_page_is_seen_again() -> None:
    page = [text for label, text in summary_rows(replace(SUMMARY, page=True)) if "page" in label]
    assert page == ["fastloop watch runs/ppo_cartpole/2025-11-27_22-40-00"]
    assert "page" not in summary_text(SUMMARY)
