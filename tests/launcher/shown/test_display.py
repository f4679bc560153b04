"""What of a run is shown to people."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fast_core.config import (
    EvaluationConfig,
    ExtraNodeConfig,
    NodesConfig,
    OptimizerNodeConfig,
    PolicyConfig,
    PolicyNodesConfig,
)
from fast_core.launcher.roster import Roster
from fast_core.launcher.shown import display
from fast_core.launcher.shown.display import Display
from fast_core.memory import StatsColumn
from fast_core.messages import Ready, Restoring
from fast_core.monitor.view import NodeView
from fast_core.nodes.node import NodeState
from fast_core.scheduler.statistics import Statistics
from fast_core.system import resources
from fast_core.system.resources import Cores
from tests.launcher.shown.test_replay_figures import replaying
from tests.nodes.stage import Stage, make_config

BEGUN_S = 1000.0
NOTHING = dict.fromkeys(Statistics.__struct_fields__, 0) | {
    "phase": "training",
    "way": "sync",
    "changed": {},
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    nodes = NodesConfig(
        policy=PolicyNodesConfig(count=2, threads=3),
        optimizer=OptimizerNodeConfig(threads=2),
        extra=(
            ExtraNodeConfig(node="examples.exploration_bonus:NoveltyLog", name="curiosity"),
            ExtraNodeConfig(node="examples.exploration_bonus:NoveltyLog", name="policy-x"),
        ),
    )
    config = make_config(nodes=nodes, policy=PolicyConfig(placement="node"))
    return Stage(tmp_path, config)


def shown(stage: Stage, phase: str = "training", **changes: object) -> Display:
    def now() -> Statistics:
        elapsed_s = display.time.monotonic() - BEGUN_S
        return Statistics(**NOTHING | {"phase": phase, "elapsed_s": elapsed_s} | changes)  # type: ignore[arg-type]

    stats = stage.memory.all_stats()

    roster = Roster(stage.plan.names, stats, awaited=(), optional=(), deaths={})
    roster.ready(Ready("env-0", 7))
    roster.died("env-1")
    roster.restores(Restoring("env-0", 300, 1200), BEGUN_S)
    roster.restores(Restoring("env-1", 0, 800), BEGUN_S)
    scheduler = SimpleNamespace(executors=lambda: ("env-0", "env-0"), statistics=now)
    scores = SimpleNamespace(last=None, lasts={}, best=None, bests={})
    made = Display(stage.plan, scheduler, roster, scores, now, None, None)  # type: ignore[arg-type]
    made._started_s = BEGUN_S - 5.0
    return made


def test_every_node_has_a_row_with_its_threads_whatever_its_role(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    view = shown(stage).view()
    rows = {node.name: (node.threads, node.note) for node in view.nodes}
    assert rows == {
        "env-0": (1, "2 shards"),
        "env-1": (1, "0 shards"),
        "policy-0": (3, "cpu"),
        "policy-1": (3, "cpu"),
        "optimizer-0": (2, "cpu"),
        "evaluator-0": (1, ""),
        "metrics-0": (1, ""),
        "curiosity": (1, ""),
        "policy-x": (1, ""),
    }
    assert view.nodes[1].state == "dead"
    assert view.nodes[0] == NodeView("env-0", "starting", None, None, "2 shards", 7, 1)


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        (Cores(4, (0,)), "1 core granted (affinity 1, no quota)"),
        (Cores(4, (0, 2, 3), 2.5, 8), "2 cores granted (affinity 3, quota 2.5, allotment 8)"),
    ],
)
def test_cores_and_their_limits_are_shown(
    stage: Stage, cores: Cores, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "cores", lambda: cores)
    assert shown(stage).view().cores == text


def test_optimizers_tell_how_long_they_wait_for_a_batch(stage: Stage) -> None:
    words = stage.memory.stats("optimizer-0").words
    words[StatsColumn.BATCHES], words[StatsColumn.BATCH_WAIT_NS] = 4, 500_000
    (node,) = [node for node in shown(stage).view().nodes if node.name == "optimizer-0"]
    assert node.note == "cpu, waits 0.12 ms a batch"


def test_replay_is_shown_with_what_the_scheduler_says_of_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, replaying(evaluation=EvaluationConfig(every_env_steps=None)))
    row = stage.plan.names.all.index("replay-0")
    words = stage.memory.stats("replay-0").words
    words[StatsColumn.LIVE_ROWS], words[StatsColumn.STATE] = 70, NodeState.DRAWING
    words[StatsColumn.DRAWN] = 12_345
    view = shown(stage, learning_from=40).view()
    assert view.replay is not None
    assert (view.replay.rows, view.replay.capacity, view.replay.learning_from) == (70, 1000, 40)
    assert view.nodes[row].state == "drawing"
    assert view.nodes[row].note == "12,345 windows drawn"


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is half a minute after the beginning."""
    clock = SimpleNamespace(monotonic=lambda: BEGUN_S + 30.0, monotonic_ns=int)
    monkeypatch.setattr(display, "time", clock)


@pytest.mark.usefixtures("late")
def test_time_goes_on_while_nothing_happens(stage: Stage) -> None:
    assert shown(stage).view().elapsed_s == 30.0
    assert shown(stage, "starting").view().elapsed_s == 35.0, "since it was started"


@pytest.mark.usefixtures("late")
def test_start_shows_how_far_open_episodes_are_stepped_again(stage: Stage) -> None:
    again = "stepping open episodes again, 300 of 2,000 steps, about 1 min 30 s left"
    assert shown(stage, "starting").view().restoring == again
    assert shown(stage).view().restoring == ""
