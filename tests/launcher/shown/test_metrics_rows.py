"""Rows of metrics: averages over an interval, nothing lost, nothing twice."""

from __future__ import annotations

import math

import msgspec
import pytest

from fast_core.launcher.shown.metrics_rows import MetricsRows, evaluation_row
from fast_core.messages import Evaluated, Figures, Played, Record, Trained
from fast_core.scheduler.statistics import Statistics

BLANK = msgspec.convert(
    {
        name: {"phase": "training", "way": "sync", "info": {}, "changed": {}}.get(
            name, False if kind == "bool" else 0
        )
        for name, kind in Statistics.__annotations__.items()
    },
    Statistics,
)


def reading(env_steps: int, updates: int = 0, **changes: object) -> Statistics:
    return msgspec.structs.replace(BLANK, env_steps_trained=env_steps, updates=updates, **changes)


def trained(*, lag_mean: float = 0.0, **metrics: float) -> Trained:
    return Trained("optimizer-0", 0, 0, 0, 0, lag_mean, 0, metrics)


@pytest.fixture
def rows() -> MetricsRows:
    made = MetricsRows(10.0, reading(100, 10))
    assert made.due(1000.0, lambda: reading(100, 10), force=False) is None
    return made


def due(rows: MetricsRows, at_s: float, now: Statistics, *, force: bool = False) -> Record:
    """The row that is written then."""
    record = rows.due(at_s, lambda: now, force=force)
    assert record is not None
    return record


def test_row_averages_what_was_trained_in_the_interval(rows: MetricsRows) -> None:
    rows.trained(trained(loss=1.0, lag_mean=4.0))
    rows.trained(trained(loss=2.0, kl=0.5, lag_mean=5.0))
    assert rows.due(1009.0, lambda: reading(200, 20), force=False) is None
    record = due(rows, 1010.0, reading(300, 30, elapsed_s=10.0))
    assert (record.env_steps, record.updates, record.time_s) == (300, 30, 10.0)
    assert record.values["loss"] == 1.5
    assert record.values["kl"] == 0.5
    assert record.values["scheduler/lag_mean"] == 4.5, "not that of the last ticket"
    assert record.values["time/env_steps_per_s"] == 20.0
    assert record.values["time/updates_per_s"] == 2.0
    rows.trained(trained(loss=5.0))
    later = due(rows, 1020.0, reading(400, 40, elapsed_s=14.0))
    assert later.values["loss"] == 5.0
    assert "kl" not in later.values
    assert later.values["time/env_steps_per_s"] == 25.0


def test_row_averages_what_nodes_log_under_their_names(rows: MetricsRows) -> None:
    rows.figures(Figures("bonus", {"cells": 10.0, "lost": math.nan}))
    rows.figures(Figures("bonus", {"cells": 20.0}))
    record = due(rows, 1010.0, reading(200))
    assert record.values["bonus/cells"] == 15.0
    assert "bonus/lost" not in record.values


def test_numbers_of_the_info_have_groups_of_their_own(rows: MetricsRows) -> None:
    rows.trained(trained())
    current = reading(200, info={"cost": 0.5})
    record = due(rows, 1010.0, current)
    assert record.values["info/cost"] == 0.5
    evaluated = Evaluated("evaluator-0", 1, 30, 640, (8.0,), (4,), {"cost": 0.25})
    assert evaluation_row(evaluated, 2.5).values["eval_info/cost"] == 0.25


def test_row_without_anything_new_is_not_written(rows: MetricsRows) -> None:
    assert rows.due(1100.0, lambda: reading(100, 10), force=True) is None


def test_values_that_are_not_finite_do_not_spoil_the_mean(rows: MetricsRows) -> None:
    for value in (1.0, math.nan, math.inf, 3.0):
        rows.trained(trained(loss=value))
    record = due(rows, 1001.0, reading(200), force=True)
    assert record.values["loss"] == 2.0


def test_no_time_gives_no_rate_and_no_error(rows: MetricsRows) -> None:
    """LOG-05."""
    rows.trained(trained())
    record = due(rows, 1000.0, reading(200), force=True)
    assert "time/env_steps_per_s" not in record.values


def test_evaluation_stands_at_the_version_that_was_evaluated() -> None:
    event = Evaluated("evaluator-0", 1, 30, 640, (8.0, 10.0), (4, 6))
    record = evaluation_row(event, 2.5)
    assert (record.env_steps, record.updates, record.time_s) == (640, 30, 2.5)
    assert record.values == {
        "eval/return_mean": 9.0,
        "eval/return_std": 1.0,
        "eval/return_min": 8.0,
        "eval/return_max": 10.0,
        "eval/length_mean": 5.0,
        "eval/quarantined_share": 0.0,
    }


def test_evaluation_in_other_environments_stands_under_their_names() -> None:
    others = {"windy": Played((2.0, 4.0), (5, 7), {"cost": 0.5})}
    event = Evaluated("evaluator-0", 1, 30, 640, (8.0, 10.0), (4, 6), {"cost": 0.25}, others)
    values = evaluation_row(event, 2.5).values
    assert values["eval/return_mean"] == 9.0 and values["eval_info/cost"] == 0.25
    found = {n: v for n, v in values.items() if n.startswith("evaluation/")}
    assert found == {
        "evaluation/windy/return_mean": 3.0,
        "evaluation/windy/return_std": 1.0,
        "evaluation/windy/return_min": 2.0,
        "evaluation/windy/return_max": 4.0,
        "evaluation/windy/length_mean": 6.0,
        "evaluation/windy/quarantined_share": 0.0,
        "evaluation/windy/info/cost": 0.5,
    }


def test_episodes_without_a_known_outcome_count_as_a_share_alone() -> None:
    event = Evaluated("evaluator-0", 1, 30, 640, (8.0, math.nan, 10.0, math.nan), (4, 1, 6, 2))
    values = evaluation_row(event, 2.5).values
    assert values["eval/quarantined_share"] == 0.5
    assert (values["eval/return_mean"], values["eval/length_mean"]) == (9.0, 5.0)
    event = Evaluated("evaluator-0", 1, 30, 640, (math.nan,), (4,))
    assert evaluation_row(event, 2.5).values == {"eval/quarantined_share": 1.0}


def test_every_value_is_a_finite_number(rows: MetricsRows) -> None:
    rows.trained(trained(loss=1.0))
    known = {"return_mean": 3.0, "length_mean": 4.0, "return_last": 2.0, "episodes": 1}
    current = reading(200, return_mean_10=None, **known)
    record = due(rows, 1010.0, current)
    assert all(math.isfinite(value) for value in record.values.values())
    assert record.values["rollout/return_mean"] == 3.0
    assert record.values["rollout/return_last"] == 2.0
    assert "rollout/return_mean_10" not in record.values


def test_newest_episode_is_a_point_once(rows: MetricsRows) -> None:
    found = []
    for second, (episodes, newest) in enumerate([(1, 2.0), (1, 2.0), (4, 7.0)]):
        rows.trained(trained())
        now = reading(200, episodes=episodes, return_last=newest, length_last=9)
        record = due(rows, 1010.0 + 20 * second, now, force=True)
        found.append(record.values.get("rollout/return_last"))
        assert ("rollout/length_last" in record.values) == (found[-1] is not None)
    assert found == [2.0, None, 7.0]


def test_row_says_how_both_sides_keep_up_and_what_was_lost(rows: MetricsRows) -> None:
    rows.trained(trained())
    now = reading(
        300,
        tickets_collected=12,
        tickets_merged=11,
        tickets_settled=10,
        collecting_s=6.0,
        collecting_waits_s=4.0,
        training_s=9.0,
        training_waits_s=1.0,
        evaluations_finished=3,
        rows_dropped=64,
        env_nodes_lost=1,
        stale_events=2,
        lag_now=2.0,
        lag_mean=1.5,
        lag_beyond=0.5,
        lag_beyond_max=1,
        ess=0.75,
    )
    record = due(rows, 1010.0, now)
    shown = {name: record.values[f"scheduler/{name}"] for name in ("rounds_collected", "ess")}
    assert shown == {"rounds_collected": 12.0, "ess": 0.75}
    assert [record.values[f"scheduler/lag_{n}"] for n in ("now", "run_mean")] == [2.0, 1.5]
    beyond = [record.values[f"scheduler/lag_beyond_{n}"] for n in ("round", "max")]
    assert beyond == [0.5, 1.0]
    lost = [record.values[f"scheduler/{n}"] for n in ("rows_dropped", "env_nodes_lost")]
    assert [*lost, record.values["scheduler/stale_events"]] == [64.0, 1.0, 2.0]
    assert record.values["time/collecting_waits_s"] == 4.0
    assert record.values["time/training_s"] == 9.0
    assert record.values["scheduler/evaluations_finished"] == 3.0


def test_row_has_no_sample_size_where_nothing_tells_it(rows: MetricsRows) -> None:
    rows.trained(trained())
    assert "scheduler/ess" not in due(rows, 1010.0, reading(300, ess=None)).values
