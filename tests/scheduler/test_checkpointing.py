import re

import msgspec
import pytest

from fast_core.errors import CheckpointError
from fast_core.messages import Collect, Save, Saved, Snapshot
from fast_core.messages.launching import (
    AbandonCheckpoint,
    CheckpointWritten,
    CommitCheckpoint,
    EndRun,
    StopRequested,
)
from fast_core.scheduler import LAUNCHER, Scheduler, Send
from tests.scheduler.simulation import World, make_settings, simulate, work_of
from tests.scheduler.test_training import collect_all, commands, ticket, train_one


def saving_world(**changes: object) -> World:
    values: dict[str, object] = {"checkpoint_every_updates": 8, "stop_env_steps": 80}
    return World(make_settings(**(values | changes))).make_ready()


def save_parts(world: World) -> None:
    for node in world.settings.working_nodes:
        world.do(node)


def fail_part(world: World, node: str) -> list[Send]:
    world.start(node)
    world.busy.pop(node)
    return world.deliver(Saved(node, world.scheduler.statistics().checkpoint, (), "no room"))


def test_checkpoint_saves_every_part_then_commits_then_goes_on() -> None:
    world = saving_world()
    assert commands(ticket(world), Save) == []
    sends = ticket(world)
    save = Save(1, "checkpoints/000000000040.tmp")
    assert commands(sends, Save) == [(n, save) for n in ("optimizer", "env0", "env1")]
    assert commands(sends, Collect) == [], "admission is held"
    assert world.scheduler.statistics().phase == "checkpointing"
    save_parts(world)
    commit = world.log[-1].command
    assert isinstance(commit, CommitCheckpoint)
    assert (commit.checkpoint, commit.version, commit.env_steps) == (1, 8, 40)
    assert commit.files == ("optimizer.bin", "env0.bin", "env1.bin")
    assert len(commands(world.do(LAUNCHER), Collect)) == 2
    assert world.scheduler.statistics().phase == "training"


def test_first_checkpoint_comes_with_the_first_round_after_a_minute() -> None:
    """Where rounds take long, the first due by updates may be an hour away."""
    world = saving_world(checkpoint_every_updates=12)
    saves = []
    for second in (59.9, 60.0, 200.0, 300.0):  # three rounds of updates are an interval
        collect_all(world)
        world.now_s = second
        saves.append(commands(train_one(world), Save))
        if saves[-1]:
            save_parts(world)
            world.do(LAUNCHER)
    assert [bool(each) for each in saves] == [False, True, True, False]
    assert [made.commit.version for made in world.checkpoints] == [8, 12]


def test_checkpoint_of_which_callbacks_are_told_does_not_depend_on_time() -> None:
    """What they decide then holds from the next ticket on, and the same is to lead to the same."""
    world = saving_world(checkpoint_every_updates=12, moments=("checkpoint",))
    collect_all(world)
    world.now_s = 200.0
    assert commands(train_one(world), Save) == []


def test_files_stand_in_node_order_whoever_is_first() -> None:
    world = saving_world(checkpoint_every_updates=4)
    ticket(world)
    for node in ("env1", "optimizer", "env0"):
        world.do(node)
    assert world.checkpoints[0].commit.files == ("optimizer.bin", "env0.bin", "env1.bin")


def test_checkpoint_waits_until_everything_started_is_trained() -> None:
    world = saving_world(degree=2, slots_per_shard=3, checkpoint_every_updates=4, shards=3)
    collect_all(world)  # three tickets are merged
    assert commands(train_one(world), Save) == []
    assert commands(train_one(world), Save) == []
    assert len(commands(train_one(world), Save)) == 3


def test_held_admission_still_fills_the_ticket_that_has_begun() -> None:
    # Three rollouts of ticket 1 run when the checkpoint becomes due; the fourth must follow, or
    # the ticket could never train and the run would stand still.
    world = World(
        make_settings(
            shards=4,
            env_nodes=("env0", "env1"),
            degree=1,
            slots_per_shard=1,
            checkpoint_every_updates=4,
            stop_env_steps=4000,
        )
    ).make_ready()
    simulate(world)
    assert len(world.checkpoints) > 10


def test_stale_parts_and_commits_are_counted_and_ignored() -> None:
    world = saving_world(checkpoint_every_updates=4)
    assert world.scheduler.handle(Saved("optimizer", 1, ()), 0.0) == []
    ticket(world)
    world.do("env0")
    stale = [
        Saved("env0", 1, ()),
        Saved("env1", 2, ()),
        Saved("stranger", 1, ()),
        CheckpointWritten(1),
    ]
    for event in stale:
        assert world.scheduler.handle(event, 0.0) == []
    assert world.scheduler.statistics().stale_events == 5
    for node in ("optimizer", "env1"):
        world.do(node)
    assert world.scheduler.handle(CheckpointWritten(2), 0.0) == []
    assert world.scheduler.statistics().phase == "checkpointing"


def test_checkpoint_of_which_a_part_fails_is_given_up_when_every_node_is_done() -> None:
    world = saving_world(checkpoint_every_updates=4)
    ticket(world)
    assert fail_part(world, "env0") == []
    assert world.do("optimizer") == []
    sends = fail_part(world, "env1")
    assert sends[0] == Send(LAUNCHER, AbandonCheckpoint(1, "env0: no room"))
    assert len(commands(sends, Collect)) == 2, "training goes on"
    assert commands(ticket(world), Save)[0].command.checkpoint == 2, "when it is due"


def test_checkpoint_that_can_not_be_committed_is_given_up() -> None:
    world = saving_world(checkpoint_every_updates=4)
    ticket(world)
    save_parts(world)
    sends = world.deliver(CheckpointWritten(1, "no room"))
    assert sends[0] == Send(LAUNCHER, AbandonCheckpoint(1, "no room"))
    assert len(commands(sends, Collect)) == 2


@pytest.mark.parametrize("stop", [False, True], ids=["finished", "interrupted"])
def test_last_checkpoint_is_tried_once_and_the_end_says_so(stop: bool) -> None:
    world = saving_world(checkpoint_every_updates=None, checkpoint_at_end=True, stop_env_steps=40)
    ticket(world)
    collect_all(world)
    if stop:
        world.deliver(StopRequested("Ctrl-C", save=True))
    train_one(world)
    for node in world.settings.working_nodes:
        sends = fail_part(world, node)
    assert sends[0].command == AbandonCheckpoint(1, "optimizer: no room")
    (end,) = (command for _, command in sends if isinstance(command, EndRun))
    assert end.reason == ("interrupted" if stop else "finished")
    assert end.text.endswith("; the last checkpoint could not be written: optimizer: no room")


def test_evaluation_in_flight_does_not_hold_a_checkpoint_up_and_is_due_on_resume() -> None:
    world = saving_world(checkpoint_every_updates=4, evaluator="evaluator", eval_every_env_steps=20)
    sends = ticket(world)
    assert commands(sends, Snapshot) and commands(sends, Save)
    world.do("optimizer")  # the snapshot; the evaluation now runs
    save_parts(world)
    resumed = World(world.settings, resumed=world.checkpoints[0]).make_ready()
    assert [command for _, command in commands(resumed.log, Snapshot)] == [Snapshot(1)]


def test_checkpoint_waits_with_a_synchronous_evaluation() -> None:
    world = saving_world(
        checkpoint_every_updates=4,
        evaluator="evaluator",
        eval_every_env_steps=20,
        eval_mode="sync",
    )
    sends = ticket(world)
    assert commands(sends, Snapshot) and not commands(sends, Save)
    for node in ("optimizer", "evaluator"):
        sends = world.do(node)
    assert len(commands(sends, Save)) == 3


def test_last_checkpoint_is_written_before_the_end_once() -> None:
    for every, numbers in ((None, [1]), (16, [1]), (8, [1, 2])):
        world = saving_world(checkpoint_every_updates=every, checkpoint_at_end=True)
        simulate(world)
        assert [c.commit.checkpoint for c in world.checkpoints] == numbers
        assert world.checkpoints[-1].commit.env_steps == 80
        assert isinstance(world.log[-1].command, EndRun)


@pytest.mark.parametrize("began_s", [0.0, 1000.0])
def test_without_checkpoints_nothing_is_saved(began_s: float) -> None:
    world = saving_world(checkpoint_every_updates=None)
    world.now_s = began_s
    simulate(world)
    assert commands(world.log, Save) == []


def test_state_with_work_in_flight_is_refused() -> None:
    world = saving_world()
    with pytest.raises(CheckpointError, match="2 rollouts run, 0 are with"):
        world.scheduler.state()


def test_restored_scheduler_shows_the_same_counters_and_bytes() -> None:
    world = saving_world(evaluator="evaluator", eval_every_env_steps=20, checkpoint_at_end=True)
    simulate(world)
    state = world.checkpoints[-1].commit.scheduler
    restored = Scheduler(world.settings, state)
    before = msgspec.structs.asdict(world.scheduler.statistics())
    after = msgspec.structs.asdict(restored.statistics())
    different = {name for name in before if before[name] != after[name]}
    waited = {"elapsed_s", "collecting_waits_s", "training_waits_s"}
    assert different == {"phase", *waited}, "the launcher took a moment to write it"
    assert restored.state() == state


@pytest.mark.parametrize("degree", [0, 3])
@pytest.mark.parametrize("evaluations", ["off", "sync", "async"])
def test_resumed_run_sends_what_the_uninterrupted_one_sent(degree: int, evaluations: str) -> None:
    values: dict[str, object] = {"shards": 5, "degree": degree, "slots_per_shard": 2}
    values |= {"stop_env_steps": 1000, "checkpoint_every_updates": 12, "checkpoint_at_end": True}
    if evaluations != "off":
        values |= {"evaluator": "evaluator", "eval_every_env_steps": 120, "eval_mode": evaluations}
    if evaluations == "sync":
        values |= {"stop_score": 5.0, "stop_score_held": 3}
    settings = make_settings(**values)

    def score(version: int) -> float:
        return 6.0 if version in (20, 32) or version > 50 else 0.0

    def work(sends: list[Send]) -> list[tuple[str, str]]:
        # What an asynchronous evaluation finds depends on time, but not what is trained.
        unlike = ("Snapshot", "Evaluate", "EndRun") if evaluations == "async" else ()
        at_once = re.compile("; it was so before the resume[^;']*")
        sent = [(node, at_once.sub("", text)) for node, text in work_of(sends)]
        return [(node, text) for node, text in sent if not text.startswith(unlike)]

    whole = World(settings, score=score).make_ready()
    simulate(whole)
    assert len(whole.checkpoints) >= 4
    for checkpoint in whole.checkpoints:
        resumed = World(settings, resumed=checkpoint, score=score).make_ready()
        simulate(resumed)
        assert work(resumed.log) == work(whole.log[checkpoint.sent :])


def test_time_goes_on_between_events_and_stands_still_after_the_end() -> None:
    world = World(make_settings(stop_env_steps=None, stop_time_s=100.0))
    assert world.scheduler.statistics(7.0).elapsed_s == 0.0, "nothing has begun"
    world.make_ready()
    begun_s = world.now_s
    assert world.scheduler.statistics(begun_s + 3.0).elapsed_s == pytest.approx(3.0)
    simulate(world)
    used_s = world.scheduler.statistics().elapsed_s
    assert world.scheduler.statistics(1e9).elapsed_s == used_s


def test_resumed_run_keeps_the_time_it_had_used() -> None:
    settings = make_settings(stop_env_steps=None, stop_time_s=100.0, checkpoint_every_updates=40)
    world = World(settings).make_ready()
    simulate(world)
    checkpoint = world.checkpoints[1]
    used_s = Scheduler(settings, checkpoint.commit.scheduler).statistics().elapsed_s
    assert 0.0 < used_s < 100.0
    resumed = World(settings, resumed=checkpoint)
    resumed.now_s = 5000.0
    resumed.make_ready()
    assert resumed.scheduler.next_wakeup_s() == pytest.approx(5100.0 - used_s)


def test_resuming_a_finished_run_ends_at_once() -> None:
    world = saving_world(checkpoint_at_end=True)
    simulate(world)
    again = World(world.settings, resumed=world.checkpoints[-1]).make_ready()
    assert again.end.reason == "finished"
    assert "it was so before the resume, and nothing was trained" in again.ended.text
    assert commands(again.log, Collect) == commands(again.log, Save) == []


def test_resuming_with_a_higher_limit_goes_on() -> None:
    world = saving_world(checkpoint_at_end=True)
    simulate(world)
    more = msgspec.structs.replace(world.settings, stop_env_steps=120)
    again = World(more, resumed=world.checkpoints[-1]).make_ready()
    simulate(again)
    assert again.scheduler.statistics().env_steps_trained == 120
    assert again.checkpoints[-1].commit.checkpoint == world.checkpoints[-1].commit.checkpoint + 1


def test_streak_is_kept_only_for_the_same_score() -> None:
    values: dict[str, object] = {"evaluator": "evaluator", "eval_every_env_steps": 20}
    values |= {"stop_score": 5.0, "stop_score_held": 100, "eval_mode": "sync"}
    world = World(
        make_settings(**values, checkpoint_at_end=True), score=lambda version: 6.0
    ).make_ready()
    simulate(world)
    state = world.checkpoints[-1].commit.scheduler
    easier = msgspec.structs.replace(world.settings, stop_score_held=1, stop_env_steps=1000)
    reached = World(easier, resumed=world.checkpoints[-1]).make_ready()
    assert reached.end.text.endswith("set stop.score to more, or to null")
    streak = world.scheduler.statistics().score_streak
    assert streak > 1
    assert Scheduler(world.settings, state).statistics().score_streak == streak
    harder = msgspec.structs.replace(world.settings, stop_score=5.5)
    assert Scheduler(harder, state).statistics().score_streak == 0


def test_damaged_state_is_refused() -> None:
    world = saving_world(checkpoint_at_end=True)
    simulate(world)
    state = world.checkpoints[-1].commit.scheduler
    decoded = msgspec.msgpack.decode(state)
    with pytest.raises(CheckpointError, match="damaged"):
        Scheduler(world.settings, state[:-1])
    with pytest.raises(CheckpointError, match="damaged"):
        Scheduler(world.settings, msgspec.msgpack.encode({}))
    with pytest.raises(CheckpointError, match="format 2"):
        Scheduler(world.settings, msgspec.msgpack.encode(decoded | {"format": 2}))
    with pytest.raises(CheckpointError, match=r"2 shards, this run has 3; set rollout\.shards"):
        Scheduler(msgspec.structs.replace(world.settings, shards=3), state)
