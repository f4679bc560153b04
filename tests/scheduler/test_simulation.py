"""Whole runs in virtual time, at the size of a cluster and under hostile durations."""

import sys

import pytest

from fast_core.messages import (
    Collect,
    Evaluate,
    RolloutOrder,
    RolloutReady,
    Train,
    Trained,
    Transform,
    Transformed,
)
from fast_core.messages.launching import StopRequested
from fast_core.scheduler import Scheduler
from tests.forms import slow_but
from tests.scheduler.simulation import Task, World, make_settings, simulate

STEPS = 30_000  # 15 tickets of 200 shards


def cluster(**changes: object) -> World:
    values: dict[str, object] = {
        "shards": 200,
        "env_nodes": tuple(f"env{k}" for k in range(50)),
        "evaluator": "evaluator",
        "eval_every_env_steps": 4000,
        "eval_at_end": True,
        "checkpoint_every_updates": 37,
        "checkpoint_at_end": True,
        "stop_env_steps": STEPS,
    }
    return World(make_settings(**(values | changes)), oldest_weights=True).make_ready()


ENDS = [
    (degree, slots, mode)
    for degree, slots in ((0, 1), (1, 1), (1, 2), (5, 2), (5, 6), (50, 4))
    for mode in ("async", "sync")
]
QUICK_ENDS = [(0, 1, "sync"), (1, 1, "async"), (1, 2, "sync"), (5, 6, "async"), (50, 4, "sync")]


@pytest.mark.parametrize(("degree", "slots", "mode"), slow_but(QUICK_ENDS, ENDS))
def test_cluster_reaches_its_end_exactly(degree: int, slots: int, mode: str) -> None:
    world = cluster(degree=degree, slots_per_shard=slots, eval_mode=mode)
    end = simulate(world, seed=degree)
    statistics = world.scheduler.statistics()
    assert end.reason == "finished"
    assert statistics.env_steps_collected == statistics.env_steps_trained == STEPS
    assert statistics.updates == statistics.version == statistics.evaluation_version == 60
    assert statistics.stale_events == 0
    assert statistics.lag_max <= 4 * (degree + 1) - 1
    numbers = [checkpoint.commit.checkpoint for checkpoint in world.checkpoints]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) >= 2
    assert world.checkpoints[-1].commit.env_steps == STEPS


@pytest.mark.parametrize("degree", [1, 4])
def test_one_very_slow_shard_neither_breaks_the_bound_nor_stops_the_run(degree: int) -> None:
    """Each rollout of env0 takes as long as dozens elsewhere; the audit checks the lag."""
    world = cluster(shards=8, env_nodes=("env0", "env1"), degree=degree, slots_per_shard=3)
    slow = SlowNode(world, "env0", wait=30)
    slow.run()
    assert world.end.reason == "finished"
    assert world.scheduler.statistics().lag_max <= 4 * (degree + 1) - 1
    assert slow.waits > 0, "the slow node was never waited for; the test shows nothing"


class SlowNode:
    """Steps all other nodes first and lets the slow one finish only now and then."""

    def __init__(self, world: World, name: str, wait: int):
        self.world, self.name, self.wait = world, name, wait
        self.waits = 0

    def run(self) -> None:
        since = 0
        while self.world.ended is None:
            for node in self.world.can_start():
                self.world.start(node)
            others = [node for node in self.world.busy if node != self.name]
            if others and since < self.wait:
                self.world.finish(others[since % len(others)])
                since += 1
            else:
                self.waits += not others
                since = 0
                self.world.finish(self.name if self.name in self.world.busy else others[0])


@pytest.mark.parametrize("degree", [0, 1])
def test_slow_training_never_stops_the_run(degree: int) -> None:
    """Weights that take 3 s to come: at least one update every 10 s all the same."""
    world = cluster(degree=degree, stop_env_steps=None, stop_time_s=120.0)
    simulate(world, scale_ms={Train: 3000, RolloutOrder: 1000, Evaluate: 9000})
    assert world.scheduler.statistics().updates >= 12


def test_slow_learner_throttles_collection_and_drops_nothing() -> None:
    world = cluster(degree=5, slots_per_shard=6, checkpoint_every_updates=None)
    simulate(world, scale_ms={Train: 60_000, RolloutOrder: 10})
    statistics = world.scheduler.statistics()
    assert statistics.rows_dropped == 0
    assert statistics.env_steps_collected == statistics.env_steps_trained


def test_higher_degree_hides_the_time_of_training() -> None:
    """Collection and training take about as long; overlapping them must pay."""
    took_s = {}
    for degree in (0, 1, 3):
        world = cluster(degree=degree, slots_per_shard=4, checkpoint_every_updates=None)
        simulate(world, scale_ms={Train: 8000, RolloutOrder: 1000})
        took_s[degree] = world.now_s
    assert took_s[0] > 1.3 * took_s[1] >= 1.3 * took_s[3] * 0.9


@pytest.mark.parametrize("every_s", slow_but([5], [5, 3]))
def test_interruption_at_any_moment_ends_in_a_checkpoint_that_resumes(every_s: int) -> None:
    resumes = 0
    for second in range(1, 18, every_s):
        world = cluster(degree=2, slots_per_shard=2)
        end = simulate(world, events=[(float(second), StopRequested("SIGINT", save=True))])
        assert end.reason == "interrupted"
        if not world.checkpoints:
            assert world.scheduler.statistics().tickets_settled == 0
            continue
        resumes += 1
        checkpoint = world.checkpoints[-1]
        assert checkpoint.commit.env_steps == world.scheduler.statistics().env_steps_trained
        resumed = World(world.settings, resumed=checkpoint).make_ready()
        assert simulate(resumed).reason == "finished"
        assert resumed.scheduler.statistics().env_steps_trained == STEPS
    assert resumes > 12 // every_s


GROWING: list[dict[str, object]] = [
    {},
    {"degree": 0},
    {"stages": ("s", "t")},
    {"stages": ("s",), "degree": 0},
    {"restarts": {"env": 5}},
]


@pytest.mark.parametrize("changes", slow_but([GROWING[0], *GROWING[3:]], GROWING))
def test_work_per_event_does_not_grow_with_the_number_of_shards(changes: dict[str, object]) -> None:
    """Counted in function calls, which no busy machine can disturb."""
    calls = {shards: _calls_per_event(shards, changes) for shards in (20, 1000)}
    assert calls[1000] < 1.3 * calls[20]


def _calls_per_event(shards: int, changes: dict[str, object]) -> float:
    settings = make_settings(
        shards=shards,
        env_nodes=tuple(f"env{k}" for k in range(shards)),
        slots_per_shard=3,
        stop_env_steps=10 * shards * 5,
        other_nodes=("s", "t"),
        **({"degree": 2} | changes),
    )
    world = World(settings).make_ready()
    events = calls = 0

    def count(frame: object, what: str, argument: object) -> None:
        nonlocal calls
        calls += what in ("call", "c_call")

    handle = world.scheduler.handle
    pending = list(world.log)
    while pending:
        node, command = pending.pop()
        for event in _answers(world, node, command):
            sys.setprofile(count)
            sends = handle(event, 0.0)
            sys.setprofile(None)
            events += 1
            pending.extend(sends)
    return calls / events


def _answers(
    world: World, node: str, command: object
) -> list[RolloutReady | Transformed | Trained]:
    match command:
        case Transform():
            return [Transformed(node, command.rollout)]
        case Collect():
            return [
                RolloutReady(
                    node,
                    o.shard,
                    o.incarnation,
                    o.slot,
                    o.rollout_id,
                    o.ticket,
                    o.min_version,
                    (),
                    (),
                )
                for o in command.rollouts
            ]
        case Train():
            world.version += 4
            return [Trained(node, command.ticket, world.version, 4, 0, 0.0, 0, {})]
        case _:
            return []


def test_statistics_of_a_run_that_has_not_begun() -> None:
    statistics = Scheduler(make_settings()).statistics()
    assert (statistics.phase, statistics.elapsed_s, statistics.lag_mean) == ("starting", 0.0, 0.0)
    assert statistics.return_mean is None and statistics.evaluation_mean is None


@pytest.mark.parametrize("stragglers", ["wait", "drop"])
def test_straggler_is_waited_for_or_dropped_and_counted(stragglers: str) -> None:
    """Shard 0 takes ten times as long as the others, and training keeps up with those."""

    def lasts_ms(node: str, task: Task) -> int | None:
        if isinstance(task, RolloutOrder):
            return 1000 if task.shard == 0 else 100
        return 10

    values: dict[str, object] = {"shards": 3, "env_nodes": ("env0", "env1", "env2"), "degree": 1}
    settings = make_settings(**values, slots_per_shard=2, stop_env_steps=900, stragglers=stragglers)
    world = World(settings).make_ready()
    assert simulate(world, lasts_ms=lasts_ms).reason == "finished"
    now = world.scheduler.statistics()
    assert now.env_steps_trained == now.env_steps_collected == 900
    told = world.told("rollouts dropped")
    if stragglers == "wait":
        assert (now.rows_dropped, told) == (0, [])
        assert now.elapsed_s > 9.0, "every third ticket waits for shard 0"
    else:
        assert now.rows_dropped == world.audit.dropped * 10 > 0
        assert told[0].startswith("1 so far, with 10 rows: without")
        assert now.elapsed_s < 6.0, "two shards collect 30 rollouts each"
