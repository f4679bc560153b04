from __future__ import annotations

from dataclasses import replace

from fast_core.monitor.progress_line import LONGEST, progress_line
from fast_core.monitor.view import EvaluationView, NodeView, ReplayView, StopCondition
from tests.monitor.views import EMPTY, REPLAYED, VIEW

NEW = replace(VIEW, evaluation=None, mean_return=None)


def test_line_tells_time_steps_returns_and_rate() -> None:
    assert progress_line(VIEW, 43_310.0, 675.2) == (
        "[8.4 s] env steps 240,128 / 500,000 (48 %, 6.0 s left) · return 213.4"
        " · eval 312.4 ± 88.1 (v3200) · 43,310 steps/s"
    )
    assert progress_line(NEW, 43_310.0, 675.2) == (
        "[8.4 s] env steps 240,128 / 500,000 (48 %, 6.0 s left) · 43,310 steps/s"
        " · 675.2 updates/s · lag 0.25"
    )


def test_line_of_a_run_that_has_nothing_yet() -> None:
    assert progress_line(EMPTY, 0.0, 0.0) == (
        "[0.0 s] starting · env steps 0 · 0 steps/s · 0.0 updates/s"
    )


def test_line_of_a_start_names_what_it_waits_for() -> None:
    nodes = (NodeView("env-0", "waiting"), NodeView("optimizer-0", "starting"))
    line = progress_line(replace(EMPTY, elapsed_s=12.0, nodes=nodes), 0.0, 0.0)
    assert line == "[12 s] starting · not ready yet: optimizer-0"
    again = replace(EMPTY, nodes=nodes, restoring="stepping again, 3 of 9 steps")
    assert progress_line(again, 0.0, 0.0) == "[0.0 s] starting · stepping again, 3 of 9 steps"


def test_env_steps_are_told_when_another_limit_is_nearer() -> None:
    view = replace(VIEW, stops=(StopCondition("time_s", 8.43, 60.0), *VIEW.stops))
    line = progress_line(view, 1.0, 0.0)
    assert "env steps 240,128 · time 8.4 s / 1 min 00 s (14 %, 52 s left)" in line


def test_line_tells_what_the_replay_holds_and_the_numbers_of_the_info() -> None:
    view = replace(REPLAYED, evaluation=None, mean_return=None, lag_mean=0.0)
    assert progress_line(view, 1.0, 1.0).endswith(" · replay 12,345 / 50,000 rows")
    line = progress_line(replace(NEW, info={"cost": 0.5, "a": 1.0}), 1.0, 1.0)
    assert " · info: a 1.00, cost 0.5 · " in line


def test_no_line_is_longer_than_a_pipe_is_wide() -> None:
    nodes = tuple(NodeView(f"env-{rank}", "starting") for rank in range(64))
    replay = ReplayView(rows=10**9, capacity=10**9, learning_from=10**9, age=1e6, empty_batches=9)
    full = replace(
        VIEW,
        phase="checkpointing",
        env_steps=123_456_789_012,
        info={f"name{index}": 1.0 for index in range(30)},
        replay=replay,
    )
    for view in (replace(EMPTY, nodes=nodes), full, REPLAYED):
        assert len(progress_line(view, 1e9, 1e9)) <= LONGEST < 120


def test_evaluations_in_other_environments_follow_that_in_the_one_of_training() -> None:
    others = {"windy": EvaluationView(mean=12.5, std=1.0, version=32, env_steps=64)}
    line = progress_line(replace(VIEW, others=others), 43_310.0, 675.2)
    assert "eval 312.4 ± 88.1 (v3200) · eval windy 12.5" in line
