"""More env nodes, or fewer, while a run goes on: who moves where and when, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fast_core.messages import (
    Assign,
    Change,
    Collect,
    Failed,
    Leave,
    NodeExited,
    Release,
    Save,
    Serve,
)
from fast_core.messages.launching import (
    Asked,
    Requested,
    Respawn,
    Retire,
    Scaled,
    ScaleRequested,
    StopRequested,
)
from fast_core.scheduler import LAUNCHER, Send
from fast_core.scheduler.crew import balancing
from tests.scheduler.simulation import World, make_settings
from tests.scheduler.test_training import commands, train_one

NODES = tuple(f"env{k}" for k in range(6))


def scaling_world(env_nodes: int = 2, shards: int = 6, **changes: object) -> World:
    names = NODES[:shards]
    values: dict[str, object] = {
        "shards": shards,
        "env_nodes": names[:env_nodes],
        "spare_nodes": names[env_nodes:],
        "stop_env_steps": 10_000,
    }
    return World(make_settings(**(values | changes))).make_ready()


def scale(world: World, count: int, *, relative: bool = False, kind: str = "env") -> list[Send]:
    return world.deliver(ScaleRequested(1, kind, count, relative))


def work(world: World, *nodes: str) -> None:
    """Let nodes do all that they were told."""
    while busy := [node for node in nodes if world.may_start(node)]:
        for node in busy:
            world.do(node)


def loads(world: World) -> list[int]:
    owners = world.scheduler.executors()
    return [owners.count(node) for node in sorted(world.audit.members)]


def test_added_nodes_take_shards_from_the_most_loaded_as_soon_as_they_rest() -> None:
    world = scaling_world()
    sends = scale(world, +1, relative=True)
    assert commands(sends, Respawn) == [(LAUNCHER, Respawn("env2", 1))]
    assert loads(world) == [3, 3]
    work(world, "env2")
    assert loads(world) == [3, 3, 0], "every shard collects"
    assert commands(world.log, Scaled) == []
    work(world, "env0")  # its shards rest one after the other
    assert loads(world) == [2, 3, 1]
    work(world, "env1")
    assert loads(world) == [2, 2, 2]
    assert commands(world.log, Scaled) == [(LAUNCHER, Scaled(1, "it has 3 env nodes"))]
    releases = [command.shard for _, command in commands(world.log, Release)]
    moved = [command for _, command in commands(world.log, Assign) if command.taken_over]
    assert sorted(releases) == sorted(command.shard for command in moved)
    assert all(command.incarnation == 2 for command in moved)
    assert world.scheduler.statistics().rows_dropped == 0


def test_retired_nodes_collect_what_they_began_then_give_their_shards_away_and_stop() -> None:
    world = scaling_world(env_nodes=3)
    sends = scale(world, 1)
    assert commands(sends, Retire) == []
    work(world, "env1")
    assert commands(world.log, Retire) == [(LAUNCHER, Retire("env1"))]
    work(world, "env2", "env0")
    assert loads(world) == [6]
    assert commands(world.log, Scaled) == [(LAUNCHER, Scaled(1, "it has 1 env node"))]
    assert world.scheduler.statistics().rows_dropped == 0
    train_one(world)
    work(world, "env0")
    assert world.audit.merged == 2


def test_shard_moves_on_when_the_node_that_it_came_to_has_begun_it() -> None:
    """That node may still be making its environments, and two must not do so at once."""
    world = scaling_world(env_nodes=1, shards=2)
    scale(world, 2)
    work(world, "env1")
    work(world, "env0")
    assert loads(world) == [1, 1]
    scale(world, 1)
    assert loads(world) == [1, 1] and commands(world.log, Retire) == []
    train_one(world)
    work(world, "env1")
    assert loads(world) == [2] and commands(world.log, Retire) == [(LAUNCHER, Retire("env1"))]


def test_shard_that_a_dead_node_had_not_begun_moves_on_when_that_is_back() -> None:
    world = scaling_world(env_nodes=1, shards=2, restarts={"env": 1})
    scale(world, 2)
    work(world, "env1")
    work(world, "env0")
    scale(world, 1)
    world.kill("env1")
    work(world, "env1")
    assert loads(world) == [2], "one that comes back is ready when it has begun all its shards"


def test_node_that_was_retired_comes_back_under_its_name_with_a_new_life() -> None:
    world = scaling_world(env_nodes=2)
    scale(world, 1)
    work(world, *NODES)
    train_one(world)
    sends = scale(world, 2)
    assert commands(sends, Respawn) == [(LAUNCHER, Respawn("env1", 2))]
    work(world, "env1")
    work(world, *NODES)
    assert loads(world) == [3, 3]


def test_node_that_was_retired_and_came_back_may_die_like_any_other() -> None:
    world = scaling_world(env_nodes=2, restarts={"env": 2}, backoff_s=0.5)
    for count in (1, 2):
        scale(world, count)
        work(world, *NODES)
        train_one(world)
    assert loads(world) == [3, 3]
    sends = world.kill("env1")
    assert [command.life for _, command in commands(sends, Respawn)] == [3], "at once"


@pytest.mark.parametrize(
    ("count", "relative", "said"),
    [
        (7, False, "it can have from 1 to 6 env nodes"),
        (0, False, "it has 2, and 0 were asked for"),
        (-2, True, "it has 2, and 0 were asked for"),
        (5, True, "and 7 were asked for"),
    ],
)
def test_number_out_of_range_changes_nothing(count: int, relative: bool, said: str) -> None:
    world = scaling_world()
    (send,) = scale(world, count, relative=relative)
    assert isinstance(send.command, Scaled)
    assert said in send.command.error


def test_what_cant_be_now_is_refused() -> None:
    world = scaling_world()
    assert "policy.placement: env" in refusal(scale(world, 1, kind="policy"))
    assert "optimizer nodes can't change" in refusal(scale(world, 1, kind="optimizer"))
    scale(world, 3)
    assert "still changing" in refusal(scale(world, 4))
    world.deliver(StopRequested("SIGINT", save=True))
    assert world.ended is not None
    ending = scaling_world(checkpoint_at_end=True)
    work(ending, *NODES)
    train_one(ending)
    ending.deliver(StopRequested("SIGINT", save=True))
    assert "about to end: SIGINT" in refusal(scale(ending, 3))
    assert "mode inline" in refusal(scale(scaling_world(spare_nodes=None), 3))
    starting = World(make_settings(spare_nodes=()))
    assert "still starting" in refusal(scale(starting, 1))


def refusal(sends: list[Send]) -> str:
    (send,) = sends
    assert isinstance(send.command, Scaled)
    return send.command.error


def test_what_is_so_already_is_done() -> None:
    world = scaling_world()
    assert scale(world, 2) == [Send(LAUNCHER, Scaled(1, "it has 2 env nodes already"))]


@pytest.mark.parametrize("reports", [True, False])
def test_newcomer_that_fails_leaves_the_run_as_it_was(reports: bool) -> None:
    world = scaling_world()
    scale(world, 3)
    if reports:
        world.deliver(Failed("env2", "starting", "no licence", "", {}))
    world.kill("env2")
    ((_, answer),) = commands(world.log, Scaled)
    assert "env2 can't be started" in answer.error
    assert "it goes on with 2 env nodes" in answer.error
    assert world.ended is None
    assert commands(scale(world, 3), Respawn) == [(LAUNCHER, Respawn("env2", 2))]


def test_nothing_moves_while_nodes_save() -> None:
    world = scaling_world(checkpoint_every_updates=4)
    scale(world, 3)
    work(world, "env0", "env1")
    assert commands(train_one(world), Save) != []
    work(world, "env2")
    assert loads(world) == [3, 3, 0], "every part is written by who had the shard"
    work(world, "env0", "env1", "optimizer", LAUNCHER)
    assert loads(world) == [2, 2, 2]


def test_nothing_moves_while_values_change() -> None:
    world = scaling_world(changeable={"rate": 0})
    world.deliver(Requested(Asked("me", changes={"rate": 1})))
    work(world, "env0", "env1")
    assert commands(train_one(world), Change) != []
    scale(world, 1)
    assert loads(world) == [3, 3], "who has a shard must know its values"
    work(world, "optimizer", "env0", "env1")
    assert loads(world) == [6]


def test_nothing_moves_to_a_node_that_is_away() -> None:
    world = scaling_world(restarts={"env": 3})
    scale(world, 3)
    work(world, "env2")
    world.kill("env2")
    work(world, "env0", "env1")
    assert loads(world) == [3, 3, 0]
    work(world, "env2")
    train_one(world)
    work(world, "env0", "env1")
    assert loads(world) == [2, 2, 2]


def test_leaving_node_that_dies_leaves_when_it_is_back() -> None:
    world = scaling_world(restarts={"env": 3})
    scale(world, 1)
    world.kill("env1")
    work(world, "env0", "env1")
    assert loads(world) == [6]
    assert commands(world.log, Retire) == [(LAUNCHER, Retire("env1"))]


def test_end_of_a_retired_node_is_no_failure_however_it_ends() -> None:
    world = scaling_world(env_nodes=2)
    scale(world, 1)
    work(world, "env0")
    world.do("env1")
    work(world, "env0", "env1")
    assert world.ended is None
    assert world.scheduler.spares(NodeExited("env1", "x")) is False
    assert "env1" not in world.audit.retired


@pytest.mark.parametrize("kind", ["env", "policy"])
def test_retired_node_that_fails_as_it_closes_does_not_end_the_run(kind: str) -> None:
    world = acting_world(policies=2)
    scale(world, 1, kind=kind)
    while not commands(world.log, Retire):
        node = next(each for each in (*NODES[:2], "policy1") if world.may_start(each))
        world.do(node)
    world.deliver(Failed(f"{kind}1", "closing", "ValueError", "", {}))
    assert world.ended is None
    work(world, f"{kind}1")
    assert len(commands(world.log, Scaled)) == 1 and world.ended is None


@given(
    st.lists(st.integers(0, 7), max_size=6), st.integers(1, 6), st.randoms(use_true_random=False)
)
def test_moves_balance_and_are_no_more_than_needed(counts, staying, random) -> None:  # type: ignore[no-untyped-def]
    serial = iter(range(100))
    held = {f"n{k}": [next(serial) for _ in range(count)] for k, count in enumerate(counts)}
    nodes = [f"n{k}" for k in range(staying)]
    before = {node: len(held.get(node, ())) for node in nodes}
    moves = balancing(held, nodes)
    after = dict(before)
    owner = {shard: node for node, shards in held.items() for shard in shards}
    for shard, node in moves.items():
        if owner[shard] in after:
            after[owner[shard]] -= 1
        after[node] += 1
    assert sum(after.values()) == len(owner)
    assert max(after.values()) - min(after.values()) <= 1
    gained = sum(max(0, after[node] - before[node]) for node in nodes)
    assert len(moves) == gained, "a shard moved for nothing"


# --- policy nodes --------------------------------------------------------------------------------

POLICIES = tuple(f"policy{k}" for k in range(4))


def acting_world(policies: int = 1, shards: int = 4, **changes: object) -> World:
    names: dict[str, object] = {
        "policy_nodes": POLICIES[:policies],
        "other_nodes": POLICIES[:policies],
        "spare_policies": POLICIES[policies:shards],
    }
    return scaling_world(env_nodes=2, shards=shards, **(names | changes))


def actors(world: World) -> list[str]:
    """Who acts for each shard, by shard; empty while it is handed over."""
    acts = world.audit.actor
    return [acts.get(shard, "") for shard in range(world.settings.shards)]


def test_added_policy_node_acts_for_shards_once_who_did_has_left_them() -> None:
    world = acting_world()
    sends = scale(world, +1, relative=True, kind="policy")
    assert commands(sends, Respawn) == [(LAUNCHER, Respawn("policy1", 1))]
    work(world, "policy1")
    assert commands(world.log, Leave) == [], "every shard collects"
    work(world, "env0", "env1")
    assert len(commands(world.log, Leave)) == 2
    assert world.audit.told_to_leave and commands(world.log, Serve) == []
    train_one(world)
    ordered = [o.shard for _, c in commands(world.log, Collect) for o in c.rollouts]
    assert len(ordered) == 4 + 2, "what is handed over begins nothing"
    work(world, "policy0")
    assert sorted(actors(world)) == ["policy0", "policy0", "policy1", "policy1"]
    assert commands(world.log, Scaled) == [(LAUNCHER, Scaled(1, "it has 2 policy nodes"))]
    work(world, *NODES[:4])
    orders = [o for _, c in commands(world.log, Collect) for o in c.rollouts if o.rollout_id == 2]
    assert [POLICIES[o.actor] for o in sorted(orders, key=lambda o: o.shard)] == actors(world)
    assert world.scheduler.statistics().rows_dropped == 0


def test_retired_policy_node_stops_when_it_acts_for_nobody() -> None:
    world = acting_world(policies=2)
    assert commands(scale(world, 1, kind="policy"), Retire) == []
    work(world, *NODES[:4])
    assert commands(world.log, Retire) == [], "it was told to leave, and has not"
    work(world, "policy1")
    assert commands(world.log, Retire) == [(LAUNCHER, Retire("policy1"))]
    assert actors(world) == ["policy0"] * 4
    assert commands(world.log, Scaled) == [(LAUNCHER, Scaled(1, "it has 1 policy node"))]
    again = scale(world, 2, kind="policy")
    assert commands(again, Respawn) == [(LAUNCHER, Respawn("policy1", 2))]


@pytest.mark.parametrize("dies", POLICIES[:2])
def test_death_in_a_hand_over_costs_nothing(dies: str) -> None:
    """Who died has left; who was to come is told when it is back."""
    world = acting_world(policies=2, restarts={"policy": 1})
    scale(world, 1, kind="policy")
    work(world, *NODES[:4])
    assert world.audit.told_to_leave == {1, 3}
    world.kill(dies)
    train_one(world)
    work(world, *POLICIES, *NODES[:4])
    train_one(world)
    assert actors(world) == ["policy0"] * 4
    assert world.scheduler.statistics().rows_dropped == 0


def test_shards_stay_with_a_policy_node_that_lives_until_the_other_is_back() -> None:
    world = acting_world(restarts={"policy": 1})
    scale(world, 2, kind="policy")
    work(world, "policy1")
    world.kill("policy1")
    work(world, *NODES[:4])
    assert commands(world.log, Leave) == []
    work(world, "policy1")
    train_one(world)
    work(world, *NODES[:4], *POLICIES)
    assert sorted(actors(world)) == ["policy0", "policy0", "policy1", "policy1"]


def test_policy_node_that_was_asked_for_and_fails_leaves_the_run_as_it_was() -> None:
    world = acting_world()
    scale(world, 2, kind="policy")
    world.kill("policy1")
    ((_, answer),) = commands(world.log, Scaled)
    assert "it goes on with 1 policy node" in answer.error
    work(world, *NODES[:4])
    assert actors(world) == ["policy0"] * 4 and world.ended is None


def test_policy_nodes_out_of_range_or_of_a_recorded_run_are_refused() -> None:
    world = acting_world()
    assert "from 1 to 4 policy nodes" in refusal(scale(world, 5, kind="policy"))
    recorded = acting_world(spare_policies=None)
    assert "diagnostics.schedule" in refusal(scale(recorded, 2, kind="policy"))


def test_hand_over_that_does_not_come_is_owed() -> None:
    world = acting_world(policies=2)
    scale(world, 1, kind="policy")
    work(world, *NODES[:4])
    assert "policy1 has not left shard 1 to another policy node" in world.scheduler.owed()
