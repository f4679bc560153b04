"""What is shown of a replay: counters as they are, means over what happened of late."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import msgspec
import pytest

from fast_core.algos.replay.dqn_config import DQNConfig
from fast_core.config import NodesConfig, OptimizerNodeConfig, ReplayConfig, RunConfig
from fast_core.launcher.shown.replay_figures import ReplayCounters, metrics_values
from fast_core.memory import STATS_WORDS, StatsColumn, StatsRow, Trace
from fast_core.monitor.view import ReplayView
from fast_core.run.parts import parts_of
from fast_core.run.plan import RunPlan
from fast_core.scheduler.statistics import Statistics
from tests.launcher.shown.test_metrics_rows import BLANK
from tests.nodes.stage import CARTPOLE, make_config

Board = tuple[RunPlan, dict[str, StatsRow]]


def replaying(**changes: object) -> RunConfig:
    """The small CartPole run, learning from replay."""
    return make_config(algorithm=DQNConfig(), replay=ReplayConfig(capacity=1000), **changes)


def board(**optimizers: object) -> Board:
    optimizer = OptimizerNodeConfig(**optimizers)  # type: ignore[arg-type]
    config = replaying(nodes=NodesConfig(optimizer=optimizer))
    plan = RunPlan(config, CARTPOLE, "", parts_of(config, 1), "numpy")
    return plan, {name: new_row() for name in plan.names.all}


def new_row() -> StatsRow:
    room = memoryview(bytearray(Trace.nbytes(STATS_WORDS)))
    return StatsRow(Trace.create(room, STATS_WORDS).words)


def reading(**changes: object) -> Statistics:
    return msgspec.structs.replace(BLANK, **{"replay_ratio": None, **changes})


def count(made: Board, node: str, **columns: int) -> None:
    words = made[1][node].words
    for name, value in columns.items():
        words[StatsColumn[name.upper()]] += value


def test_counters_are_shown_as_they_stand() -> None:
    made = board()
    counters = ReplayCounters(*made)
    count(made, "replay-0", live_rows=70, lapped=2, refused_values=3, refused_stale=4)
    count(made, "replay-0", empty_batches=5)
    for _ in range(2):
        assert counters.read(reading(learning_from=40, replay_ratio=0.5)) == ReplayView(
            rows=70,
            capacity=1000,
            learning_from=40,
            updates_per_env_step=0.5,
            rejected=0.0,
            lapped=2,
            refused_values=3,
            refused_stale=4,
            empty_batches=5,
        )


def test_age_is_of_the_windows_drawn_since_the_last_reading_and_in_env_steps_of_the_run() -> None:
    made = board()
    count(made, "replay-0", age_sum=999, aged=1)
    counters = ReplayCounters(*made)
    assert counters.read(reading()).age is None
    count(made, "replay-0", age_sum=60, aged=10)
    assert counters.read(reading()).age == 6 * 4, "four environments have written as many rows each"
    count(made, "replay-0", age_sum=10, aged=10)
    assert counters.read(reading()).age == 4
    assert counters.read(reading()).age == 4, "of the last windows of which it is known"


def test_share_of_rejected_draws_counts_all_draws() -> None:
    made = board()
    counters = ReplayCounters(*made)
    count(made, "replay-0", drawn=6, rejected=3, lapped=1)
    assert counters.read(reading()).rejected == 0.3


def test_staleness_is_the_mean_over_the_steps_of_all_optimizers() -> None:
    made = board(count=2, update="async")
    counters = ReplayCounters(*made)
    count(made, "optimizer-0", batches=3, staleness_sum=4, staleness_max=1)
    count(made, "optimizer-1", batches=5)
    view = counters.read(reading())
    assert (view.staleness, view.staleness_max) == (0.5, 1)
    assert metrics_values(view)["train/gradient_staleness_max"] == 1.0


@pytest.mark.parametrize("optimizers", [{}, {"count": 2}])
def test_steps_that_are_taken_together_have_no_staleness(optimizers: dict[str, int]) -> None:
    made = board(**optimizers)
    counters = ReplayCounters(*made)
    count(made, "optimizer-0", batches=3)
    values = metrics_values(counters.read(reading()))
    assert "train/gradient_staleness_max" not in values


def test_metrics_leave_out_what_is_not_known_yet() -> None:
    values = metrics_values(ReplayView(rows=7, capacity=1000))
    assert values["replay/rows"] == 7.0
    assert "replay/age_env_steps" not in values
    assert "replay/rejected_share" not in values


def test_documentation_names_figures_that_there_are() -> None:
    docs = Path(__file__).parents[3] / "docs"
    text = "".join(path.read_text() for path in sorted(docs.glob("*.md")))
    named = set(re.findall(r"`(replay/[a-z_]+|train/\w*staleness\w*)`", text))
    everything = ReplayView(**{field.name: 1 for field in dataclasses.fields(ReplayView)})
    # The mean staleness is a metric of the steps themselves.
    known = metrics_values(everything).keys() | {"train/gradient_staleness"}
    assert len(named) > 4 and named <= known
