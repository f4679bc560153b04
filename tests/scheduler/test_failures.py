"""Nodes die and come back: their shards wait, open rollouts are dropped and ordered anew."""

from __future__ import annotations

import pytest

from fast_core.messages import (
    Assign,
    Collect,
    Evaluate,
    Evaluated,
    Failed,
    Late,
    NodeExited,
    RolloutReady,
    Save,
    Saved,
    Snapshot,
    Train,
)
from fast_core.messages.launching import Decision, Respawn, StopRequested, Tick
from fast_core.scheduler import Send
from tests.scheduler.simulation import World, make_settings, simulate
from tests.scheduler.test_training import ticket


def world_of(shards: int = 4, nodes: int = 2, env: int = 1, **changes: object) -> World:
    values: dict[str, object] = {
        "shards": shards,
        "env_nodes": tuple(f"env{k}" for k in range(nodes)),
        "restarts": {"env": env},
    }
    return World(make_settings(**(values | changes))).make_ready()  # type: ignore[arg-type]


def respawned(sends: list[Send]) -> list[Respawn]:
    return [command for _, command in sends if isinstance(command, Respawn)]


def ordered(sends: list[Send]) -> list[tuple[str, int, int, int]]:
    return [
        (node, o.shard, o.incarnation, o.rollout_id)
        for node, c in sends
        if isinstance(c, Collect)
        for o in c.rollouts
    ]


def test_dead_node_comes_back_with_its_shards_as_their_next_incarnation() -> None:
    world = world_of()
    sends = world.kill("env1")
    assert respawned(sends) == [Respawn("env1", 2, (Assign(2, 2, True), Assign(3, 2, True)))]
    assert ordered(sends) == [], "nobody executes them meanwhile"
    text = next(c.why for _, c in sends if isinstance(c, Decision))
    assert "it is started anew now" in text and "0 more such deaths" in text
    assert "2 open rollouts are dropped" in text
    assert ordered(world.do("env1")) == [("env1", 2, 2, 1), ("env1", 3, 2, 1)]
    statistics = world.scheduler.statistics()
    assert (statistics.rows_dropped, statistics.env_nodes_lost) == (20, 1)
    assert statistics.nodes_back == 1


def test_last_env_node_comes_back_too() -> None:
    world = world_of(2, 1, stop_env_steps=200)
    world.kill("env0")
    assert simulate(world).reason == "finished"


def test_others_collect_in_the_place_of_one_that_is_away() -> None:
    world = world_of(degree=2, slots_per_shard=3)
    ordered_before = len(ordered(world.log))
    world.kill("env1")
    world.paused.add("env1")  # it takes long to come back
    while world.can_start():
        world.do(world.can_start()[0])
    trained = [ref.shard for _, c in world.log if isinstance(c, Train) for ref in c.rollouts]
    assert len(ordered(world.log)) > ordered_before
    assert len(trained) == 12 and set(trained) == {0, 1}


def test_gaps_between_starts_grow_and_the_budget_is_spent_exactly() -> None:
    """FT-04: a node that always dies is started so often as the budget says, ever more rarely."""
    world = world_of(env=5, backoff_s=0.5, max_backoff_s=3.0)
    sends, gaps = world.kill("env1"), []
    while world.ended is None:
        died_s = world.now_s
        if not respawned(sends):
            assert world.scheduler.handle(Tick(), world.now_s + 0.01) == []
            wakeup_s = world.scheduler.next_wakeup_s()
            assert wakeup_s is not None
            world.now_s = wakeup_s
            sends = world.deliver(Tick())
        assert len(respawned(sends)) == 1
        gaps.append(world.now_s - died_s)
        sends = world.kill("env1")  # before it is ready
    assert gaps == [0.0, 0.5, 1.0, 2.0, 3.0]
    lives = [c.life for _, c in world.log if isinstance(c, Respawn)]
    assert lives == [2, 3, 4, 5, 6], "six lives in all"


def test_node_that_lived_long_is_started_at_once_again() -> None:
    world = world_of(env=3, backoff_s=0.5, max_backoff_s=3.0)
    for lived_s, gap_s in [(0.0, 0.0), (1.0, 0.5), (3.0, 0.0)]:
        world.now_s += lived_s
        died_s, sends = world.now_s, world.kill("env1")
        if not respawned(sends):
            world.now_s = world.scheduler.next_wakeup_s() or 0.0
            sends = world.deliver(Tick())
        assert world.now_s - died_s == gap_s and len(respawned(sends)) == 1
        world.do("env1")


def test_last_checkpoint_does_not_wait_for_the_next_try() -> None:
    world = world_of(env=2, backoff_s=20.0, max_backoff_s=30.0, checkpoint_at_end=True)
    ticket(world)
    world.kill("env1")
    assert respawned(world.kill("env1")) == []
    assert len(respawned(world.deliver(StopRequested("Ctrl-C", save=True)))) == 1


def test_late_report_of_the_dead_is_refused_and_counted() -> None:
    world = world_of()
    world.kill("env1")
    late = RolloutReady("env1", 2, 1, 0, 1, 0, 0, (), ())
    assert world.scheduler.handle(late, 0.0) == []
    assert world.scheduler.handle(Late("env1"), 0.0) == []
    world.do("env1")
    assert world.scheduler.handle(late, 0.0) == [], "though the same order is open again"
    assert world.scheduler.statistics().stale_events == 3


def test_complete_rollout_of_the_dead_is_still_trained_on() -> None:
    world = world_of()
    world.do("env1")  # shard 2
    world.kill("env1")
    assert [order[1] for order in ordered(world.do("env1"))] == [3]
    sends: list[Send] = []
    while not any(isinstance(command, Train) for _, command in sends):
        sends = world.do(world.can_start()[0])
    train = next(c for _, c in sends if isinstance(c, Train))
    assert [(ref.shard, ref.incarnation) for ref in train.rollouts] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 2),
    ]


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (NodeExited("env1", "killed", reaped=True), {"env": 0}),
        (NodeExited("env1", "does not read"), {}),
        (NodeExited("optimizer", "killed", reaped=True), {}),
        (Failed("env1", "stepping", "ValueError", "", {}), {}),
    ],
    ids=["no budget", "perhaps alive", "not a kind with a budget", "an error"],
)
def test_what_is_not_survived_ends_the_run(event: object, changes: dict[str, object]) -> None:
    world = world_of(**changes)  # type: ignore[arg-type]
    world.deliver(event)  # type: ignore[arg-type]
    assert world.end.reason == "failed"


def test_death_beyond_the_budget_ends_the_run_with_its_report() -> None:
    world = world_of(6, 3)
    world.kill("env1")
    report = Failed("env2", "stepping", "env2 was killed by SIGKILL", "", {"shard": "4"})
    world.deliver(NodeExited("env2", "killed by SIGKILL", reaped=True, report=report))
    assert world.end.cause == report


def test_second_news_of_the_same_death_changes_nothing() -> None:
    world = world_of(6, 3)
    world.kill("env1")
    again = NodeExited("env1", "is not connected")
    assert world.scheduler.survives(again)
    assert world.scheduler.handle(again, 0.0) == []


def test_death_before_the_start_ends_the_run() -> None:
    world = World(make_settings(restarts={"env": 1}))
    world.deliver(NodeExited("env1", "killed", reaped=True))
    assert world.end.reason == "failed"


def test_dead_policy_node_takes_nothing_of_the_scheduler_with_it() -> None:
    world = world_of(other_nodes=("policy0",), restarts={"policy": 1})
    assert respawned(world.kill("policy0")) == [Respawn("policy0", 2)]
    assert world.scheduler.statistics().rows_dropped == 0
    assert simulate(world).reason == "finished"


def evaluating(**changes: object) -> World:
    world = world_of(
        evaluator="evaluator",
        eval_every_env_steps=40,
        stop_env_steps=400,
        restarts={"evaluator": 1},
        **changes,
    )
    while not any(isinstance(command, Snapshot) for _, command in world.log):
        world.do(world.can_start()[0])
    return world


def test_evaluation_under_way_is_played_again_on_the_same_snapshot() -> None:
    world = evaluating()
    world.paused |= {"env0", "env1"}
    while "evaluator" not in world.can_start():
        world.do(world.can_start()[0])
    asked = world.start("evaluator")
    late = Evaluated("evaluator", 1, world.version, 40, (0.0, 0.0), (1, 1))
    world.kill("evaluator")
    assert isinstance(world.start("evaluator"), Respawn)
    sends = world.finish("evaluator")
    assert [(node, c) for node, c in sends if isinstance(c, Evaluate)] == [("evaluator", asked)]
    world.paused.clear()
    assert simulate(world).reason == "finished"
    assert [event.request for event in world.audit.evaluated].count(late.request) == 1


def test_run_that_waits_for_a_node_to_come_back_does_not_stand_still() -> None:
    world = evaluating(work_timeout_s=60.0, repeat_timeout_s=10.0)
    world.paused |= {"env0", "env1"}
    while "evaluator" not in world.can_start():
        world.do(world.can_start()[0])
    world.kill("evaluator")
    for _ in range(100):  # its environments take long to be made, and nobody else has work
        world.now_s += 5.0
        world.deliver(Tick(idle_since_s=0.0))
    assert world.ended is None
    world.paused.clear()
    assert simulate(world).reason == "finished"


def test_snapshot_that_is_taken_while_the_evaluator_is_away_waits_for_it() -> None:
    world = evaluating()
    world.kill("evaluator")
    assert simulate(world).reason == "finished"
    assert world.scheduler.statistics().evaluations_finished > 0


def test_checkpoint_that_lacks_the_part_of_the_dead_is_begun_anew() -> None:
    world = world_of(checkpoint_every_updates=1, stop_env_steps=400)
    while not any(isinstance(command, Save) for _, command in world.log):
        node = next(iter(world.can_start()))
        world.do(node)
    world.do("env0")  # its part of number 1
    sends = world.kill("env1")
    assert not any(isinstance(command, Save) for _, command in sends), "a part would be missing"
    sends = world.do("env1")
    again = [(node, c.checkpoint) for node, c in sends if isinstance(c, Save)]
    assert again == [("optimizer", 2), ("env0", 2), ("env1", 2)]
    late = Saved("optimizer", 1, ("optimizer.bin",))
    assert world.scheduler.handle(late, 0.0) == []
    assert simulate(world).reason == "finished"
    assert all(c.commit.checkpoint != 1 for c in world.checkpoints)


@pytest.mark.parametrize(("degree", "slots"), [(0, 1), (2, 3), (5, 3)])
def test_every_rollout_is_trained_once_or_counted_as_dropped(degree: int, slots: int) -> None:
    world = world_of(60, 12, env=80, degree=degree, slots_per_shard=slots, stop_env_steps=12_000)

    def kill(node: str) -> None:
        if node not in world.audit.away or node in world.audit.spawned:
            world.kill(node)

    deaths = [(0.1 * k + 0.3, lambda k=k: kill(f"env{k * 7 % 12}")) for k in range(80)]
    assert simulate(world, events=deaths).reason == "finished"  # type: ignore[arg-type]
    statistics = world.scheduler.statistics()
    refs = [ref for _, c in world.log if isinstance(c, Train) for ref in c.rollouts]
    assert len(refs) == len(set(refs)) == 1200
    assert world.audit.dropped > 0
    assert len(ordered(world.log)) == len(refs) + world.audit.dropped
    assert statistics.rows_dropped == 10 * world.audit.dropped
    assert statistics.env_steps_collected == statistics.env_steps_trained == 12_000
    assert statistics.env_nodes_lost == world.audit.deaths.total() > 20
