"""Nodes that get every ticket too, and without whose answer it is not settled."""

from __future__ import annotations

import pytest

from fast_core.messages import Followed, Ready, Train
from fast_core.messages.launching import EndRun, Respawn
from tests.scheduler.simulation import World, make_settings, simulate
from tests.scheduler.test_training import collect_all, commands, train_one


def followed(**changes: object) -> World:
    values: dict[str, object] = {"followers": ("census",), "other_nodes": ("census",)}
    return World(make_settings(**(values | changes))).make_ready()


def settled(world: World) -> int:
    return world.scheduler.statistics().tickets_settled


@pytest.mark.parametrize("last", ["census", "optimizer"])
def test_ticket_is_settled_when_learner_and_follower_are_done(last: str) -> None:
    world = followed()
    collect_all(world)
    assert [node for node, _ in commands(world.log, Train)] == ["census", "optimizer"]
    for node in ("census", "optimizer"):
        world.start(node)
    (first,) = {"census", "optimizer"} - {last}
    assert world.finish(first) == [] and settled(world) == 0
    assert world.finish(last) and settled(world) == 1, "the next ticket begins"


def test_learner_goes_on_to_the_next_ticket_while_a_follower_has_the_first() -> None:
    world = followed(degree=1, slots_per_shard=2)
    world.paused.add("census")
    collect_all(world)
    collect_all(world)
    train_one(world)
    train_one(world)
    assert settled(world) == 0
    assert world.scheduler.owed() == "census has not sent Followed of ticket 0"
    world.paused.clear()
    for done in (1, 2):
        world.do("census")
        assert settled(world) == done


def test_follower_that_comes_back_gets_what_it_has_not_answered() -> None:
    world = followed(restarts={"policy": 1}, degree=1, slots_per_shard=2)
    collect_all(world)
    world.start("census")
    assert commands(world.kill("census"), Respawn)
    train_one(world)
    collect_all(world)
    world.start("census")
    sends = world.deliver(Ready("census", 0))
    world.busy.pop("census")
    assert [command.ticket for _, command in commands(sends, Train)] == [0, 1]
    assert settled(world) == 0
    world.deliver(Followed("census", 0))
    assert settled(world) == 1


def test_follower_that_is_away_is_told_of_tickets_when_it_is_back() -> None:
    world = followed(restarts={"policy": 1}, degree=1, slots_per_shard=2)
    world.kill("census")
    collect_all(world)
    assert [node for node, _ in commands(world.log, Train)] == ["optimizer", "optimizer"]
    sends = world.deliver(Ready("census", 0))
    assert [command.ticket for _, command in commands(sends, Train)] == [0, 1]


def test_follower_that_comes_back_gets_nothing_twice_that_it_has_answered() -> None:
    world = followed(restarts={"policy": 1}, degree=1, slots_per_shard=2)
    collect_all(world)
    world.do("census")
    collect_all(world)
    world.kill("census")
    world.start("census")
    sends = world.deliver(Ready("census", 0))
    assert settled(world) == 0, "the learner is at it"
    assert [command.ticket for _, command in commands(sends, Train)] == [1]


@pytest.mark.parametrize("ticket", [0, 1])
def test_answer_that_was_not_asked_for_ends_the_run(ticket: int) -> None:
    world = followed()
    if ticket:  # what was answered
        collect_all(world)
        world.do("census")
    sends = world.scheduler.handle(Followed("census", 0), 0.0)
    (end,) = [command for _, command in sends if isinstance(command, EndRun)]
    assert "census sent Followed of ticket 0, which it was not told of or had answered" in end.text


def test_run_with_replay_and_followers_comes_to_its_end() -> None:
    world = followed(replay="replay", degree=1, slots_per_shard=2, stop_env_steps=200)
    assert simulate(world, seed=3).reason == "finished"
    assert len([node for node, _ in commands(world.log, Train) if node == "census"]) == 10
