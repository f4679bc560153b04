"""Env nodes die and the run goes on: shards move, open rollouts are dropped and ordered anew."""

from __future__ import annotations

import pytest

from fast_core.events import (
    Assign,
    Collect,
    Decision,
    Failed,
    NodeExited,
    RolloutReady,
    Save,
    Saved,
    Train,
)
from fast_core.scheduler import Send
from tests.scheduler.simulation import World, make_settings, simulate


def world_of(shards: int = 4, nodes: int = 2, **changes: object) -> World:
    values: dict[str, object] = {
        "shards": shards,
        "env_nodes": tuple(f"env{k}" for k in range(nodes)),
        "env_restarts": 1,
    }
    world = World(make_settings(**(values | changes)))
    world.make_ready()
    return world


def assigned(sends: list[Send]) -> dict[int, tuple[str, int]]:
    return {c.shard: (node, c.incarnation) for node, c in sends if isinstance(c, Assign)}


def test_shards_of_a_dead_node_move_as_their_next_incarnation() -> None:
    world = world_of()
    sends = world.kill("env1")
    assert assigned(sends) == {2: ("env0", 2), 3: ("env0", 2)}
    assert all(c.taken_over for _, c in sends if isinstance(c, Assign))
    orders = [o for _, c in sends if isinstance(c, Collect) for o in c.rollouts]
    assert [(o.shard, o.incarnation, o.rollout_id) for o in orders] == [(2, 2, 1), (3, 2, 1)]
    statistics = world.scheduler.statistics()
    assert (statistics.rows_dropped, statistics.env_nodes_lost) == (20, 1)
    text = next(c.why for _, c in sends if isinstance(c, Decision))
    assert "2 open rollouts are dropped" in text and "0 more deaths" in text


def test_shards_go_to_the_least_loaded_living_nodes() -> None:
    world = world_of(9, 4, env_restarts=2)  # 2, 2, 2 and 3 shards
    assert assigned(world.kill("env3")) == {6: ("env0", 2), 7: ("env1", 2), 8: ("env2", 2)}
    assert assigned(world.kill("env0")) == {
        0: ("env1", 2),
        1: ("env2", 2),
        6: ("env1", 3),
    }


def test_late_report_of_the_dead_is_refused_and_counted() -> None:
    world = world_of()
    world.kill("env1")
    late = RolloutReady("env1", 2, 1, 0, 1, 0, 0, (), ())
    assert world.scheduler.handle(late, 0.0) == []
    assert world.scheduler.statistics().stale_events == 1


def test_complete_rollout_of_the_dead_is_still_trained_on() -> None:
    world = world_of()
    world.start("env1")
    world.finish("env1")  # shard 2
    sends = world.kill("env1")
    orders = [o.shard for _, c in sends if isinstance(c, Collect) for o in c.rollouts]
    assert orders == [3]
    while not any(isinstance(command, Train) for _, command in sends):
        world.start("env0")
        sends = world.finish("env0")
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
        (NodeExited("env1", "killed", reaped=True), {"env_restarts": 0}),
        (NodeExited("env1", "does not read"), {}),
        (NodeExited("optimizer", "killed", reaped=True), {}),
        (NodeExited("env0", "killed", reaped=True), {"nodes": 1}),
        (Failed("env1", "stepping", "ValueError", "", {}), {}),
    ],
    ids=["no budget", "perhaps alive", "not an env node", "the last one", "an error"],
)
def test_what_is_not_survived_ends_the_run(event: object, changes: dict[str, object]) -> None:
    world = world_of(**changes)  # type: ignore[arg-type]
    world.deliver(event)  # type: ignore[arg-type]
    assert world.ended is not None and world.ended.reason == "failed"


def test_death_beyond_the_budget_ends_the_run_with_its_report() -> None:
    world = world_of(6, 3)
    world.kill("env1")
    report = Failed("env2", "stepping", "env2 was killed by SIGKILL", "", {"shard": "4"})
    world.deliver(NodeExited("env2", "killed by SIGKILL", reaped=True, report=report))
    assert world.ended is not None and world.ended.cause == report


def test_second_news_of_the_same_death_changes_nothing() -> None:
    world = world_of(6, 3)
    world.kill("env1")
    again = NodeExited("env1", "is not connected")
    assert world.scheduler.handle(again, 0.0) == []


def test_death_before_the_start_ends_the_run() -> None:
    world = World(make_settings(env_restarts=1))
    world.deliver(NodeExited("env1", "killed", reaped=True))
    assert world.ended is not None and world.ended.reason == "failed"


def test_checkpoint_that_lacks_the_part_of_the_dead_is_begun_anew() -> None:
    world = world_of(checkpoint_every_updates=1, stop_env_steps=400)
    while not any(isinstance(command, Save) for _, command in world.log):
        node = next(iter(world.can_start()))
        world.start(node)
        world.finish(node)
    world.start("env0")
    world.finish("env0")  # its part of number 1
    sends = world.kill("env1")
    again = [(node, c.checkpoint) for node, c in sends if isinstance(c, Save)]
    assert again == [("optimizer", 2), ("env0", 2)]
    late = Saved("optimizer", 1, ("optimizer.bin",))
    assert world.scheduler.handle(late, 0.0) == []
    assert simulate(world).reason == "finished"
    assert all(c.commit.checkpoint != 1 for c in world.checkpoints)


@pytest.mark.parametrize(("degree", "slots"), [(0, 1), (2, 3), (5, 3)])
def test_every_rollout_is_trained_once_or_counted_as_dropped(degree: int, slots: int) -> None:
    world = world_of(
        60, 12, degree=degree, slots_per_shard=slots, env_restarts=8, stop_env_steps=12_000
    )
    deaths = [(0.7 * k + 0.3, lambda k=k: world.kill(f"env{k}")) for k in range(8)]
    assert simulate(world, events=deaths).reason == "finished"  # type: ignore[arg-type]
    statistics = world.scheduler.statistics()
    refs = [ref for _, c in world.log if isinstance(c, Train) for ref in c.rollouts]
    ordered = sum(len(c.rollouts) for _, c in world.log if isinstance(c, Collect))
    assert len(refs) == len(set(refs)) == 1200
    assert world.audit.dropped > 0
    assert ordered == len(refs) + world.audit.dropped
    assert statistics.rows_dropped == 10 * world.audit.dropped
    assert statistics.env_steps_collected == statistics.env_steps_trained == 12_000
    assert statistics.env_nodes_lost == 8
