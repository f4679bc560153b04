"""Where the run waits for callbacks, and what becomes of what they ask for."""

from __future__ import annotations

from msgspec import structs

from fast_core.messages import Change, Collect, Evaluate, Save, Snapshot, Train
from fast_core.messages.launching import Asked, CommitCheckpoint, Requested, Tell, Told
from fast_core.scheduler import CALLBACKS, LAUNCHER, Send
from tests.scheduler.simulation import Checkpoint, World, make_settings
from tests.scheduler.test_checkpointing import save_parts
from tests.scheduler.test_evaluation import evaluate, played, snapshot
from tests.scheduler.test_training import collect_all, commands, ticket, train_one

ALL = ("start", "evaluation", "checkpoint")


def listening_world(*asked: Asked, begun: bool = True, **changes: object) -> World:
    values: dict[str, object] = {"moments": ALL, "stop_env_steps": 200}
    world = World(make_settings(**(values | changes)), asks=lambda tell: asked).make_ready()
    if begun:
        world.deliver(Told("start"))
        world.inbox[CALLBACKS].clear()
    return world


def told(world: World) -> list[object]:
    return [command for _, command in world.do(CALLBACKS)]


def test_nothing_is_collected_before_callbacks_know_of_the_start() -> None:
    world = listening_world(begun=False)
    assert commands(world.log, Tell) == [(LAUNCHER, Tell("start"))]
    assert commands(world.log, Collect) == []
    assert any(isinstance(command, Collect) for command in told(world))


def test_time_that_is_up_while_callbacks_hear_of_the_start_wakes_nobody_before_they_have() -> None:
    world = listening_world(begun=False, stop_env_steps=None, stop_time_s=5.0)
    world.now_s = 6.0
    assert world.scheduler.next_wakeup_s() is None
    told(world)
    assert world.end.reason == "finished"


def test_next_ticket_waits_until_callbacks_know_of_a_synchronous_evaluation() -> None:
    world = listening_world(evaluator="evaluator", eval_every_env_steps=20, eval_mode="sync")
    ticket(world)
    sends = played(world)
    assert commands(sends, Tell) == [(LAUNCHER, Tell("evaluation"))]
    assert commands(sends, Collect) == []
    assert any(isinstance(command, Collect) for command in told(world))


def test_training_goes_on_while_callbacks_are_told_of_an_asynchronous_evaluation() -> None:
    world = listening_world(evaluator="evaluator", eval_every_env_steps=20)
    ticket(world)
    played(world)
    assert commands(ticket(world), Collect), "the next one is collected"
    assert commands(world.log, Snapshot) == [("optimizer", Snapshot(1))], "but not evaluated"
    assert Snapshot(2) in told(world)


def test_next_ticket_waits_until_callbacks_know_of_a_checkpoint() -> None:
    world = listening_world(checkpoint_every_updates=4)
    ticket(world)
    save_parts(world)
    sends = world.do(LAUNCHER)
    assert commands(sends, Tell) == [(LAUNCHER, Tell("checkpoint"))]
    assert commands(sends, Collect) == []
    assert any(isinstance(command, Collect) for command in told(world))


def test_callbacks_that_remember_have_a_part_of_the_checkpoint() -> None:
    world = listening_world(checkpoint_every_updates=4, callbacks_save=True)
    saves = commands(ticket(world), Save)
    assert [node for node, _ in saves] == ["optimizer", "env0", "env1", CALLBACKS]
    save_parts(world)
    assert commands(world.log, CommitCheckpoint) == []
    (commit,) = [c for c in told(world) if isinstance(c, CommitCheckpoint)]
    assert commit.files[-1] == "callbacks.bin"


def test_asked_to_stop_the_run_ends_in_order_and_says_who_asked() -> None:
    world = listening_world(
        Asked("mine:Mine.on_evaluation", stop="enough"),
        evaluator="evaluator",
        eval_every_env_steps=20,
        eval_mode="sync",
        checkpoint_at_end=True,
    )
    ticket(world)
    played(world)
    assert any(isinstance(each, Save) for each in told(world)), "a last checkpoint"
    save_parts(world)
    world.do(LAUNCHER)
    assert world.ended is None, "callbacks are told of that, too"
    told(world)
    assert world.end.reason == "finished"
    assert world.end.text.startswith("enough (mine:Mine.on_evaluation)")


def test_asked_to_save_writes_a_checkpoint_at_the_next_boundary() -> None:
    world = listening_world()
    collect_all(world)
    world.deliver(Told(None, (Asked("mine:Mine.on_metrics", save=True),)))
    assert commands(world.log, Save) == []
    assert len(commands(train_one(world), Save)) == 3


def test_asked_to_save_what_is_saved_does_nothing() -> None:
    """Else one that asks when it is told of a checkpoint would never let the run go on."""
    world = listening_world(Asked("mine:Mine.on_checkpoint", save=True), checkpoint_every_updates=4)
    ticket(world)
    save_parts(world)
    world.do(LAUNCHER)
    assert not any(isinstance(command, Save) for command in told(world))
    assert commands(collect_all(world), Train)


def test_evaluation_of_which_callbacks_are_told_is_not_asked_for_again_after_a_resume() -> None:
    world = listening_world(
        evaluator="evaluator",
        eval_every_env_steps=35,
        checkpoint_every_updates=12,
        moments=("evaluation",),
    )
    ticket(world)
    ticket(world)
    played(world)
    ticket(world)
    save_parts(world)
    resumed = World(world.settings, resumed=world.checkpoints[0]).make_ready()
    assert resumed.scheduler.statistics().evaluations_finished == 1
    assert commands(resumed.log, Snapshot) == []


# --- changes -------------------------------------------------------------------------------------


def changing_world(*asked: Asked, **changes: object) -> World:
    return listening_world(*asked, changeable={"rate": 1.0, "clip": 0.2}, **changes)


def ask(world: World, **changes: object) -> list[Send]:
    return world.deliver(Told(None, (Asked("mine:Mine.on_metrics", changes=changes),)))


def make_changes(world: World) -> None:
    for node in world.settings.nodes:
        if world.inbox[node] and isinstance(world.inbox[node][0], Change):
            world.do(node)


def test_change_is_made_between_two_tickets_on_every_node() -> None:
    world = changing_world(degree=2, slots_per_shard=3)
    collect_all(world)  # three tickets are merged
    assert commands(ask(world, rate=0.5), Change) == []
    assert commands(train_one(world), Collect) == [], "none may begin"
    train_one(world)
    change = Change(1, {"rate": 0.5})
    nodes = ("optimizer", "env0", "env1")
    assert commands(train_one(world), Change) == [(node, change) for node in nodes]
    assert commands(world.log, Collect)[6:] == [], "not before every node has said so"
    make_changes(world)
    assert commands(world.log, Collect)[6:]
    (line,) = world.told("change")
    asked_by = "asked for by mine:Mine.on_metrics"
    assert line == f"rate 1.0 -> 0.5 from ticket 3 on (60 env steps, version 12): {asked_by}"


def test_checkpoint_that_is_due_is_of_the_run_with_the_change() -> None:
    world = changing_world(checkpoint_every_updates=4)
    collect_all(world)
    ask(world, rate=0.5)
    assert commands(train_one(world), Save) == []
    make_changes(world)
    assert commands(world.log, Save)


def test_what_is_as_it_was_is_no_change() -> None:
    world = changing_world()
    collect_all(world)
    ask(world, rate=1.0)
    assert commands(train_one(world), Change) == []
    assert "change" not in {decision.what for decision in world.audit.decisions}


def saved_with(world: World, **changes: object) -> Checkpoint:
    collect_all(world)
    ask(world, **changes)
    train_one(world)
    make_changes(world)
    save_parts(world)
    return world.checkpoints[-1]


def test_resumed_run_goes_on_with_what_was_changed() -> None:
    """Its nodes know: their plan has it."""
    world = changing_world(checkpoint_every_updates=4)
    checkpoint = saved_with(world, rate=0.5, clip=0.1)
    resumed = World(world.settings, resumed=checkpoint)
    assert resumed.scheduler.statistics().changed == {"rate": 0.5, "clip": 0.1}
    resumed.make_ready()
    resumed.deliver(Told("start"))
    assert commands(resumed.log, Change) == []
    assert commands(resumed.log, Collect)
    collect_all(resumed)
    ask(resumed, rate=1.0)
    train_one(resumed)
    assert resumed.changes[0].values == {"rate": 1.0, "clip": 0.1}


def test_what_the_configuration_of_a_resume_says_anew_counts() -> None:
    world = changing_world(checkpoint_every_updates=4)
    checkpoint = saved_with(world, rate=0.5, clip=0.1)
    changeable = {"rate": 0.7, "clip": 0.2}
    resumed = World(structs.replace(world.settings, changeable=changeable), resumed=checkpoint)
    assert resumed.scheduler.statistics().changed == {"clip": 0.1}
    resumed.make_ready()
    assert resumed.told("change dropped") == [
        "rate: the configuration of this resume says otherwise"
    ]


def test_evaluation_is_told_of_the_values_of_its_moment() -> None:
    world = changing_world(evaluator="evaluator", eval_every_env_steps=20)
    collect_all(world)
    ask(world, rate=0.5)
    train_one(world)
    assert next(c for _, c in snapshot(world) if isinstance(c, Evaluate)).changed == {}
    evaluate(world)
    told(world)
    make_changes(world)
    ticket(world)
    assert next(c for _, c in snapshot(world) if isinstance(c, Evaluate)).changed == {"rate": 0.5}


def test_node_that_dies_before_it_has_changed_is_not_waited_for() -> None:
    world = changing_world(restarts={"env": 1})
    collect_all(world)
    ask(world, rate=0.5)
    train_one(world)
    world.kill("env1")
    make_changes(world)
    assert commands(world.log, Collect)[2:]


def test_who_asks_from_outside_gets_a_checkpoint_at_the_next_moment_of_rest() -> None:
    world = listening_world(moments=())
    assert commands(world.deliver(Requested(Asked("fastloop save", save=True))), Save) == []
    assert world.scheduler.saving
    assert commands(ticket(world), Save) != []


def test_who_asks_while_nothing_was_trained_gets_none() -> None:
    world = listening_world(begun=False)
    world.deliver(Requested(Asked("fastloop save", save=True)))
    assert not world.scheduler.saving
    told(world)
    ticket(world)
    assert commands(world.log, Save) == []
