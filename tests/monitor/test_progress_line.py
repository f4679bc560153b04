from __future__ import annotations

from dataclasses import replace

from fast_core.monitor.progress_line import progress_line
from fast_core.monitor.view import NodeView, StopCondition
from tests.monitor.views import EMPTY, REPLAYED, VIEW


def test_line_tells_time_steps_rates_returns_and_lag() -> None:
    assert progress_line(VIEW, 43_310.0, 675.2) == (
        "[8.4 s] training · env steps 240,128 / 500,000 (48 %, 6.0 s left) · 43,310 env steps/s"
        " · 675.2 updates/s · return 213.4 · evaluation 312.4 ± 88.1 (v3200) · lag 0.25"
    )


def test_line_of_a_run_that_has_nothing_yet() -> None:
    assert progress_line(EMPTY, 0.0, 0.0) == (
        "[0.0 s] starting · env steps 0 · 0 env steps/s · 0.0 updates/s"
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


def test_line_of_a_run_with_replay_tells_what_it_holds() -> None:
    line = progress_line(REPLAYED, 1.0, 1.0)
    assert line.endswith(
        " · lag 0.25 · replay 12,345 / 50,000 rows, 0.5 updates per env step,"
        " mean age 6,120 env steps"
    )
