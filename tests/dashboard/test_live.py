"""What the page's node reads of a run that goes on in this memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fast_core.config import DashboardConfig
from fast_core.dashboard.live import WatchedRun, slowed_ns
from fast_core.dashboard.meters import SPAN_S, Meters
from fast_core.dashboard.tile_states import STILL_S, Best, TileStates
from fast_core.memory import StatsColumn
from fast_core.messages.requests import NodeStatus
from fast_core.nodes.node import NodeState
from fast_core.run.tiles import tiles
from fast_core.run.watching import Watching
from tests.dashboard.served import make_frame
from tests.nodes.stage import Stage, make_config


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, make_config(dashboard=DashboardConfig(enabled=True)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_state_of_a_tile_is_that_of_who_steps_it(stage: Stage, clock: list[float]) -> None:
    stats = stage.memory.all_stats()
    states = TileStates(stage.plan, stage.memory, stats)
    training, evaluated = tiles(stage.plan.config)[0], tiles(stage.plan.config)[-1]
    words = stats["env-0"].words

    def state(*away: str) -> tuple[str, str]:
        return tuple(states.state(training, away))  # type: ignore[return-value]

    words[StatsColumn.STATE] = NodeState.TRYING
    assert state() == ("starting", "env-0 makes its environments")
    words[StatsColumn.STATE] = NodeState.STEPPING
    words[StatsColumn.ENV_STEPS] += 16
    assert state() == ("running", "")
    words[StatsColumn.STATE] = NodeState.WAITING
    assert state() == ("running", ""), "it waits between two rounds"
    clock[0] += STILL_S + 0.1
    assert state() == ("waiting for policy", "env-0 waits for training")
    assert state("env-0") == ("restarting", "env-0 died and is started anew")
    stats["evaluator-0"].words[StatsColumn.STATE] = NodeState.WAITING
    assert states.state(evaluated, ()).word == "waiting"
    stats["evaluator-0"].words[StatsColumn.STATE] = NodeState.EVALUATING
    assert states.state(evaluated, ()).word == "running"
    pulse = stage.memory.pulse("env-0")
    pulse[0] += 1
    assert state()[0] == "waiting for policy"
    clock[0] += 3
    assert state() == ("dead", "env-0 gives no sign of life")


def test_shard_that_moved_is_where_it_was_seen_last(stage: Stage) -> None:
    stats = stage.memory.all_stats()
    states = TileStates(stage.plan, stage.memory, stats)
    tile = tiles(stage.plan.config)[1]
    assert (tile.shard, states.node_of(tile)) == (1, "env-1")
    words = stats["env-0"].words
    words[StatsColumn.SHARD], words[StatsColumn.STATE] = 1, NodeState.STEPPING
    assert states.node_of(tile) == "env-0"


def test_best_tile_is_that_of_the_best_mean_once_all_have_ended_an_episode() -> None:
    best = Best()
    assert best.tile is None

    def see(tile: int, *seen: tuple[int, float]) -> None:
        for episode, total in seen:
            best.see(tile, make_frame(episode=episode, total=total))

    see(0, (0, 1.0), (0, 5.0))
    assert best.tile is None, "there is nothing to compare it with"
    see(1, (0, 7.0))
    assert best.tile == 1
    see(0, (1, 0.0))
    see(1, (1, 0.0), (2, 0.0))
    assert best.tile == 0, "5 against the mean of 7 and 0"


def test_share_of_waiting_is_that_of_the_last_seconds(clock: list[float]) -> None:
    meters = Meters()

    def share(busy_s: float, waiting_s: float) -> float | None:
        clock[0] += 1.0
        return meters.node(NodeStatus("env-0", "acting", 0.0, busy_s, waiting_s)).waiting_share

    assert share(0.0, 0.0) is None
    assert share(1.0, 0.0) == 0.0
    shares = [share(1.0, second - 1.0) for second in range(2, 20)]
    assert shares[-1] == 1.0, f"what was {SPAN_S:g} s ago does not count"
    assert share(0.1, 0.0) is None, "another process"
    assert meters.node(NodeStatus("env-1", "away", 0.0, 0.0, 0.0)).state == "dead"


def test_time_goes_on_between_rows_and_a_first_round_is_training(
    stage: Stage, clock: list[float]
) -> None:
    live: Any = WatchedRun(stage.plan, stage.memory, None, None)  # type: ignore[arg-type]
    assert (live.now().phase, live.now().elapsed_s) == ("starting", 0.0)
    stage.memory.all_stats()["env-1"].words[StatsColumn.STEP] = 3
    clock[0] += 20.0
    assert (live.now().phase, live.now().elapsed_s) == ("training", 20.0)
    path = Path(stage.plan.run_directory) / "metrics.jsonl"
    path.write_text('{"env_steps": 64, "updates": 4, "time_s": 21.5, "values": {}}\n')
    live.news()
    assert live.now().elapsed_s == 21.5
    clock[0] += 1.0
    assert (live.now().env_steps, live.now().elapsed_s) == (64, 22.5)


def test_tile_of_which_nothing_comes_for_long_says_so(stage: Stage, clock: list[float]) -> None:
    nothing: Any = None
    watching: Any = Watching(memoryview(bytearray(8 * 40)).cast("q"))
    live = WatchedRun(stage.plan, stage.memory, watching, nothing)
    stats = stage.memory.all_stats()
    both = [stats[name].words for name in ("env-0", "env-1")]

    def notes(after_s: float) -> list[str]:
        clock[0] += after_s
        for shard, words in enumerate(both):
            words[StatsColumn.SHARD] = shard
            words[StatsColumn.STATE] = NodeState.STEPPING
            words[StatsColumn.ENV_STEPS] += 1
        live.want({0: 5}, insight=False)
        return [each.note for each in live.now().tiles[:2]]

    assert notes(0) == notes(2) == ["", ""]
    assert notes(2) == ["env-0 steps, but has drawn nothing of it yet", ""], "of what is wanted"


def test_frame_and_figures_come_from_memory_and_files(stage: Stage) -> None:
    plan = stage.plan
    wanted: list[dict[int, int]] = []

    class Watching:
        def want(self, intervals_ns: dict[int, int], now_ns: int, **how: bool) -> None:
            wanted.append(intervals_ns)

    live: Any = WatchedRun(plan, stage.memory, Watching(), None)  # type: ignore[arg-type]
    hello = live.hello()
    assert (hello.run.name, hello.run.running, hello.frames) == ("toy", True, True)
    assert [(each.tile, each.shard, each.env, each.kind) for each in hello.tiles] == [
        (0, 0, 0, "training"),
        (1, 1, 0, "training"),
        (2, 0, 1, "training"),
        (3, 1, 1, "training"),
        (4, -1, 0, "evaluation"),
    ]
    live.want({1: 5}, insight=False)
    assert wanted == [{1: 5}]
    assert live.frame(1, -1) is None
    layout = live._layout
    room = bytearray(layout.nbytes)
    layout.pack(make_frame(obs=np.arange(4, dtype=np.float32), action=np.int64(1)), room)
    stage.memory.frames(1).publish(0, room)
    number, frame = live.frame(1, -1)
    assert (number, frame.total, frame.obs.tolist()) == (0, 2.5, [0, 1, 2, 3])
    assert live.frame(1, 0) is None
    path = Path(plan.run_directory) / "metrics.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lag = {"scheduler/lag_mean": 7.5, "scheduler/lag_max": 15.0}  # as at degree 0, in 16 steps
    lag |= {"scheduler/lag_beyond_round": 0.0, "scheduler/lag_beyond_max": 0.0}
    values = {"time/env_steps_per_s": 9.0, "scheduler/degree": 0.0, **lag}
    row = {"env_steps": 64, "updates": 4, "time_s": 2.0, "values": values}
    path.write_bytes(msgspec.json.encode(row) + b"\n")
    assert [each.kind for each in live.news()] == ["train"]
    now = msgspec.json.decode(msgspec.json.encode(live.now()))
    assert (now["env_steps"], now["rates"]["env_steps_per_s"]) == (64, 9.0)
    ahead = [now["async"][name] for name in ("degree", "lag_mean", "lag_max")]
    assert ahead == [0, 0, 0], "as the terminal shows it"
    assert now["tiles"][1]["R"] == 2.5 and now["tiles"][0]["R"] is None
    assert {each["name"] for each in now["nodes"]} == set(plan.names.all)


def test_crowded_page_is_given_poses_as_often_as_they_are_wanted(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: list[dict[int, int]] = []

    class Watching:
        def want(self, intervals_ns: dict[int, int], now_ns: int, **how: bool) -> None:
            wanted.append(intervals_ns)

    live: Any = WatchedRun(stage.plan, stage.memory, Watching(), None)  # type: ignore[arg-type]
    monkeypatch.setattr(live, "_crowded", lambda: 1.0)
    monkeypatch.setattr(live._painter, "ask", lambda *asked: None)
    room = bytearray(live._layout.nbytes)
    interval_ns, slow_ns = 200_000_000, 500_000_000
    for pose, expected_ns in ((np.zeros(3), interval_ns), (None, slow_ns)):
        given = make_frame(obs=np.zeros(4, np.float32), action=np.int64(1), pose=pose)
        if pose is not None:
            given = given._replace(picture=None)
        live._layout.pack(given, room)
        stage.memory.frames(1).publish(0 if pose is not None else 1, room)
        live.frame(1, -1)
        live.want({0: interval_ns, 1: interval_ns}, insight=False)
        assert wanted[-1] == {0: slow_ns, 1: expected_ns}


def test_crowded_page_asks_for_fewer_frames_but_two_a_second() -> None:
    ms = 1_000_000
    assert [slowed_ns(200 * ms, crowded) // ms for crowded in (0, 0.5, 1)] == [200, 350, 500]
    assert slowed_ns(1_000 * ms, 1) == 1_000 * ms, "no more than are wanted"
