from __future__ import annotations

from fast_core.messages import Failed, NodeExited
from fast_core.monitor.crash import WENT_ON, crash_report, survived_report

TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "robot.py", line 12, in step\n'
    "ValueError: bad joint 7\n"
)
FIRST = Failed(
    node="env-3",
    doing="stepping shard 3",
    error="ValueError: bad joint 7",
    traceback=TRACEBACK,
    context={"episode": "4", "step": "37", "seed": "1234", "last action": "[0.5 0.1]"},
)


def test_first_cause_stands_last_with_all_that_is_known() -> None:
    assert crash_report(FIRST, incarnation=2, run_directory="runs/a") == (
        "First cause: node 'env-3' (incarnation 2) failed.\n"
        "  doing        stepping shard 3\n"
        "  episode      4\n"
        "  step         37\n"
        "  seed         1234\n"
        "  last action  [0.5 0.1]\n"
        "  run          runs/a\n"
        "\n"
        "Traceback of node 'env-3':\n" + TRACEBACK
    )


def test_secondary_failures_take_one_line_each_and_stand_before() -> None:
    others = [
        NodeExited("env-1", "killed by SIGKILL\n(out of memory?)"),
        Failed("optimizer-0", "", "BrokenPipeError: " + "x" * 500, TRACEBACK, {}),
    ]
    report = crash_report(FIRST, others)
    before, _, after = report.partition("First cause")
    lines = before.strip().splitlines()
    assert len(lines) == 3
    assert lines[1] == "  env-1: killed by SIGKILL (out of memory?)"
    assert lines[2].startswith("  optimizer-0: BrokenPipeError") and len(lines[2]) <= 160
    assert report.count("Traceback (most recent call last)") == 1
    assert after.endswith("ValueError: bad joint 7\n")


def test_hundreds_of_secondary_failures_do_not_bury_the_first() -> None:
    report = crash_report(FIRST, [NodeExited(f"env-{n}", "gone") for n in range(300)])
    assert "... and 280 more" in report
    assert len(report.splitlines()) < 45


def test_killed_node_without_a_traceback_says_so_and_ends_with_the_cause() -> None:
    killed = Failed("env-0", "", "killed by SIGKILL (out of memory?)", "", {})
    lines = crash_report(killed).splitlines()
    assert "The node left no traceback." in lines
    assert lines[-1] == "killed by SIGKILL (out of memory?)"


def test_run_that_the_scheduler_ends_has_no_node_to_blame() -> None:
    text = "60 % of the last 100 episodes met NaN"
    report = crash_report(Failed("scheduler", "deciding", text, "", {}))
    assert report.startswith("First cause: the scheduler ended the run.\n")
    assert "node" not in report and "traceback" not in report
    assert report.endswith(f"{text}\n")


def test_error_that_the_traceback_does_not_end_with_is_added() -> None:
    wrapped = Failed("env-0", "x", "EnvironmentFailed: joint 7\nof env 3", TRACEBACK, {})
    assert crash_report(wrapped).endswith(
        "ValueError: bad joint 7\nEnvironmentFailed: joint 7\nof env 3\n"
    )


def test_control_characters_of_a_strangers_error_can_not_repaint_the_screen() -> None:
    nasty = Failed("env-0", "\x1b[2J", "E: \x1b[31m", "T\x1b[0m\nE: \x1b[31m", {"a": "\x07"})
    assert "\x1b" not in crash_report(nasty) and "\x07" not in crash_report(nasty)


def test_survived_failure_says_last_that_the_run_went_on() -> None:
    report = survived_report(FIRST, incarnation=2, run_directory="runs/a")
    assert report.startswith(crash_report(FIRST, incarnation=2, run_directory="runs/a"))
    assert report.splitlines()[-2] == f"{WENT_ON}: env-3 was started anew."
