"""Rollouts pass the user's nodes before they are trained on."""

from __future__ import annotations

import re

import pytest

from fast_core.errors import ConfigError
from fast_core.messages import (
    Event,
    NodeExited,
    Noted,
    Ready,
    RolloutOrder,
    RolloutRef,
    Saved,
    Train,
    Transform,
    Transformed,
)
from fast_core.messages.launching import EndRun
from tests.scheduler.simulation import World, make_settings, simulate
from tests.scheduler.test_training import commands, ticket


def staged(**changes: object) -> World:
    values: dict[str, object] = {"stages": ("first", "second"), "other_nodes": ("first", "second")}
    return World(make_settings(**(values | changes))).make_ready()


def test_rollout_visits_the_stages_in_order_and_then_trains() -> None:
    world = staged(shards=1, env_nodes=("env0",))
    ref = RolloutRef(shard=0, incarnation=1, slot=0, rollout_id=1)
    assert commands(world.do("env0"), Transform) == [("first", Transform(0, ref))]
    assert commands(world.do("first"), Transform) == [("second", Transform(0, ref))]
    sends = world.do("second")
    assert [(node, c.rollouts) for node, c in commands(sends, Train)] == [("optimizer", (ref,))]


def test_first_stage_gets_rollouts_in_shard_order_whoever_is_faster() -> None:
    world = staged()
    assert commands(world.do("env1"), Transform) == []
    sends = commands(world.do("env0"), Transform)
    assert [(node, c.rollout.shard) for node, c in sends] == [("first", 0), ("first", 1)]


def test_above_degree_0_the_first_stage_gets_rollouts_as_they_come() -> None:
    world = staged(degree=1, slots_per_shard=2)
    sends = commands(world.do("env1"), Transform)
    assert [(node, c.rollout.shard) for node, c in sends] == [("first", 1)]


def test_shard_goes_on_collecting_while_a_stage_has_its_rollout() -> None:
    world = staged(degree=1, slots_per_shard=2)
    world.do("env1")
    assert world.can_start() == ["env0", "env1", "first"]
    assert world.scheduler.statistics().rollouts_staged == 1


def failure_of(world: World, event: Transformed) -> str:
    """Why the run ends with this event."""
    sends = world.scheduler.handle(event, 0.0)
    (end,) = [command for _, command in sends if isinstance(command, EndRun)]
    assert end.reason == "failed"
    return end.text


@pytest.mark.parametrize(
    "change",
    [{"node": "second"}, {"slot": 1}, {"incarnation": 2}, {"rollout_id": 2}, {"shard": 1}],
)
def test_report_about_a_rollout_that_a_stage_does_not_have_ends_the_run(
    change: dict[str, object],
) -> None:
    """The rollout that it does have might never be reported: then the run would wait for ever."""
    world = staged(shards=1, env_nodes=("env0",))
    world.do("env0")
    names = {"shard": 0, "incarnation": 1, "slot": 0, "rollout_id": 1} | change
    node = str(names.pop("node", "first"))
    report = Transformed(node, RolloutRef(**names))  # type: ignore[arg-type]
    assert f"{node} reported rollout" in failure_of(world, report)


def test_repeated_report_ends_the_run() -> None:
    """Whoever reports early or twice may write to a slot that is not its own any more."""
    world = staged(shards=1, env_nodes=("env0",), stages=("first",))
    world.do("env0")
    world.do("first")
    report = Transformed("first", RolloutRef(0, 1, 0, 1))
    assert failure_of(world, report) == (
        "first reported rollout 1 of shard 0 (incarnation 1, slot 0) as transformed, which it does "
        "not have; it must send one Transformed with the `rollout` of each Transform, when it is "
        "done with it"
    )


def test_ticket_waits_for_a_due_rollout_that_a_stage_still_has() -> None:
    """The audit checks the lag: a rollout that is left behind would be trained on too late."""
    world = staged(degree=1, slots_per_shard=9, stop_env_steps=400, stages=("first",))
    kept: Transform | None = None
    withheld = 0
    while world.ended is None:
        box = world.inbox["first"]
        if kept is None and box:
            kept = box.popleft()  # type: ignore[assignment]
        if box:
            world.deliver(Transformed("first", box.popleft().rollout))  # type: ignore[union-attr]
        elif nodes := world.can_start():
            world.do(nodes[0])
        else:
            assert kept is not None, "deadlock"
            world.deliver(Transformed("first", kept.rollout))
            kept = None
            withheld += 1
    assert world.ended.reason == "finished"
    assert withheld > 1


@pytest.mark.parametrize(("degree", "slots"), [(0, 1), (3, 4)])
def test_every_rollout_is_transformed_once_and_trained_once(degree: int, slots: int) -> None:
    world = staged(
        shards=20,
        env_nodes=tuple(f"env{k}" for k in range(5)),
        degree=degree,
        slots_per_shard=slots,
        stop_env_steps=4000,
        savers=("first",),
        other_nodes=("second",),
        checkpoint_every_updates=30,
        checkpoint_at_end=True,
    )
    assert simulate(world, scale_ms={Transform: 40, RolloutOrder: 500}).reason == "finished"
    seen = [
        (node, command.rollout) for node, command in world.log if isinstance(command, Transform)
    ]
    trained = [
        ref for _, command in world.log if isinstance(command, Train) for ref in command.rollouts
    ]
    assert len(seen) == len(set(seen)) == 2 * len(trained) == 2 * len(set(trained)) == 800
    assert world.checkpoints and "first.bin" in world.checkpoints[-1].commit.files


@pytest.mark.parametrize("seed", range(3))
def test_order_of_transforms_at_degree_0_does_not_depend_on_timing(seed: int) -> None:
    orders = []
    for salt in (0, 100 + seed):
        world = staged(shards=6, env_nodes=("env0", "env1", "env2"), stop_env_steps=600)
        simulate(world, seed=salt, scale_ms={Transform: 700})
        orders.append([(n, c.rollout) for n, c in world.log if isinstance(c, Transform)])
    assert [c for n, c in orders[0] if n == "first"] == [c for n, c in orders[1] if n == "first"]
    assert [c for n, c in orders[0] if n == "second"] == [c for n, c in orders[1] if n == "second"]


def test_stage_that_is_no_node_of_the_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="'nobody'"):
        make_settings(stages=("nobody",))


def saving(**changes: object) -> World:
    """In the middle of checkpoint 1."""
    world = staged(
        stages=(),
        savers=("first",),
        other_nodes=("second",),
        checkpoint_every_updates=4,
        **changes,
    )
    ticket(world)
    assert world.scheduler.statistics().phase == "checkpointing"
    return world


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Saved("first", 2, ()), r"first reported its part of checkpoint 2 .* The last one was 1$"),
        (Saved("first", 0, ()), r"checkpoint 0 as saved, which it was not asked for"),
        (Ready("second", 7), "second reported ready twice"),
        (Noted("first", 1), "first sent Noted, which only FastLoop's own nodes send"),
    ],
)
def test_report_that_nobody_asked_a_users_node_for_ends_the_run_by_name(
    event: Event, said: str
) -> None:
    """Nothing would ever answer it: the run would wait without a word."""
    world = saving()
    ((_, end),) = commands(world.scheduler.handle(event, 0.0), EndRun)
    assert isinstance(end, EndRun)
    assert re.search(said, end.text)


def test_part_of_a_checkpoint_begun_anew_is_no_fault_of_a_users_node() -> None:
    world = saving(restarts={"env": 1})
    world.scheduler.handle(NodeExited("env1", "was killed by SIGKILL", reaped=True), 0.0)
    sends = world.scheduler.handle(Saved("first", 1, ()), 0.0)
    assert commands(sends, EndRun) == []
