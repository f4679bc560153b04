import msgspec
import pytest

from fast_core.messages import (
    Collect,
    Failed,
    LogLine,
    NodeExited,
    Ready,
    RolloutReady,
    Save,
    Snapshot,
)
from fast_core.messages.launching import Decision, EndRun, Respawn, StopRequested, Tick
from tests.scheduler.simulation import World, make_settings
from tests.scheduler.test_training import collect_all, commands, ticket, train_one

BOOM = Failed(
    "env1", "stepping shard 1", "ValueError: bad joint 7", "Traceback ...", {"step": "37"}
)
STOP = StopRequested("SIGINT", save=True)


def ready_world(**changes: object) -> World:
    return World(make_settings(**changes)).make_ready()


def test_failure_ends_the_run_at_once_with_its_cause() -> None:
    world = ready_world()
    world.deliver(BOOM)
    assert world.end == EndRun(
        "failed", "env1 failed while stepping shard 1: ValueError: bad joint 7", BOOM
    )


def test_death_without_a_report_is_described_by_how_it_died() -> None:
    world = ready_world()
    world.deliver(NodeExited("env0", "killed by SIGKILL (out of memory?)"))
    assert world.end.text == "env0 is lost: killed by SIGKILL (out of memory?)"
    cause = world.end.cause
    assert cause is not None
    assert (cause.node, cause.error) == ("env0", world.end.text)


def test_exit_that_nobody_asked_for_is_a_failure() -> None:
    world = ready_world()
    world.deliver(NodeExited("env0", ""))
    assert world.end.reason == "failed"
    assert "nobody had told it to stop" in world.end.text


def test_failure_while_starting_ends_the_run() -> None:
    world = World(make_settings())
    world.deliver(Ready("env0", 1))
    world.deliver(BOOM)
    assert world.end.cause == BOOM
    assert commands(world.log, Collect) == []


def test_failure_during_an_orderly_end_wins() -> None:
    world = ready_world(
        stop_env_steps=20, evaluator="evaluator", eval_every_env_steps=1000, eval_at_end=True
    )
    ticket(world)
    assert world.ended is None
    world.deliver(BOOM)
    assert world.end.reason == "failed"


def test_later_failures_are_noted_and_nothing_else_is_sent() -> None:
    world = ready_world()
    world.deliver(BOOM)
    later = Failed("env0", "waiting", "BrokenPipeError", "", {})
    assert [type(c) for _, c in world.deliver(later)] == [Decision]
    assert [type(c) for _, c in world.deliver(NodeExited("env1", "exit status 1"))] == [Decision]
    quiet = [
        NodeExited("optimizer", ""),  # it had been told to stop
        RolloutReady("env0", 0, 1, 0, 1, 0, 0, (), ()),
        STOP,
        Tick(),
    ]
    for event in quiet:
        assert world.scheduler.handle(event, 1e9) == []
    assert world.scheduler.next_wakeup_s() is None
    assert world.scheduler.statistics().phase == "ended"


def test_log_lines_change_nothing() -> None:
    world = ready_world()
    before = world.scheduler.statistics()
    assert world.deliver(LogLine("env0", "INFO", "x")) == []
    assert world.scheduler.statistics() == before


def test_stop_before_anything_was_trained_says_that_there_is_nothing_to_save() -> None:
    world = ready_world(checkpoint_at_end=True)
    collect_all(world)
    world.deliver(STOP)
    text = "SIGINT: nothing was trained yet, so there is nothing to save"
    assert world.end == EndRun("interrupted", text)


def test_stop_without_saving_ends_at_once() -> None:
    world = ready_world(checkpoint_at_end=True)
    ticket(world)
    world.deliver(StopRequested("SIGTERM", save=False))
    assert world.end == EndRun("interrupted", "SIGTERM")


@pytest.mark.parametrize(
    "configured", [{"checkpoint_at_end": True}, {"checkpoint_every_updates": 1000}]
)
def test_stop_with_saving_comes_to_rest_and_saves(configured: dict[str, object]) -> None:
    world = ready_world(**configured)
    ticket(world)
    world.deliver(STOP)
    assert world.ended is None
    collect_all(world)  # the ticket that had begun
    sends = train_one(world)
    assert len(commands(sends, Save)) == 3
    for node in (*world.settings.working_nodes, "launcher"):
        world.do(node)
    assert world.end == EndRun("interrupted", "SIGINT")
    assert world.checkpoints[0].commit.env_steps == 40


@pytest.mark.parametrize("case", ["nothing trained", "no checkpoints", "starting"])
def test_stop_with_nothing_to_save_ends_at_once(case: str) -> None:
    world = World(make_settings(checkpoint_at_end=case != "no checkpoints"))
    if case != "starting":
        world.make_ready()
    if case == "no checkpoints":
        ticket(world)
    world.deliver(STOP)
    assert world.end.reason == "interrupted"


def test_second_stop_ends_at_once() -> None:
    world = ready_world(checkpoint_at_end=True)
    ticket(world)
    world.deliver(STOP)
    assert world.ended is None
    world.deliver(STOP)
    assert world.end.reason == "interrupted"


def test_stop_during_the_final_evaluation_skips_it_and_saves() -> None:
    world = ready_world(
        stop_env_steps=20,
        evaluator="evaluator",
        eval_every_env_steps=1000,
        eval_at_end=True,
        checkpoint_at_end=True,
    )
    sends = ticket(world)
    assert commands(sends, Snapshot)
    assert len(commands(world.deliver(STOP), Save)) == 3
    world.do("optimizer")  # the snapshot stands before the save in its channel
    for node in (*world.settings.working_nodes, "launcher"):
        world.do(node)
    assert world.end.reason == "interrupted"
    assert world.audit.evaluated == []


def test_stop_right_after_a_checkpoint_does_not_write_it_again() -> None:
    world = ready_world(checkpoint_every_updates=4)
    ticket(world)
    for node in world.settings.working_nodes:
        world.do(node)
    world.deliver(STOP)  # while the launcher commits
    assert world.ended is None
    world.do("launcher")
    assert world.end.reason == "interrupted"
    assert len(world.checkpoints) == 1


def lost_optimizer(event: Failed | NodeExited, **changes: object) -> EndRun:
    world = ready_world(**({"comebacks": 1} | changes))
    world.deliver(event)
    return world.end


def test_run_comes_back_from_the_death_of_an_optimizer_within_the_budget() -> None:
    died = NodeExited("optimizer", "killed by SIGKILL")
    assert lost_optimizer(died).again
    assert not lost_optimizer(died, comebacks=0).again
    assert not lost_optimizer(NodeExited("env0", "killed by SIGKILL")).again


def test_error_of_an_optimizer_is_a_death_only_where_it_is_said_to_be() -> None:
    raised = Failed("optimizer", "learning", "ValueError: 7", "Traceback ...", {})
    assert not lost_optimizer(raised).again
    assert lost_optimizer(raised, comebacks_on_error=True).again
    refused = msgspec.structs.replace(raised, refused=True)
    assert not lost_optimizer(refused, comebacks_on_error=True).again


KILLED = NodeExited("env0", "killed by SIGKILL")
BACK = {"back": True, "restarts": {"env": 1}}


def lost_in_the_start(event: Failed | NodeExited, **changes: object) -> EndRun:
    world = World(make_settings(**(BACK | changes)))
    world.deliver(event)
    return world.end


def test_death_while_a_run_comes_back_is_one_of_its_budget() -> None:
    assert lost_in_the_start(KILLED).again
    assert not lost_in_the_start(KILLED, restarts={}).again
    assert not lost_in_the_start(KILLED, restarts={"evaluator": 1}).again
    assert not lost_in_the_start(KILLED, back=False).again, "it would most likely die again"
    hangs = Failed("env0", "trying", "no step", "", {}, hangs=True)
    raised = msgspec.structs.replace(hangs, hangs=False)
    assert lost_in_the_start(hangs).again and not lost_in_the_start(raised).again
    assert lost_in_the_start(raised, comebacks_on_error=True).again


def test_run_that_has_come_back_replaces_a_dead_node_as_any_other() -> None:
    world = ready_world(**BACK)
    assert commands(world.kill("env0"), Respawn)
    world.kill("env0")
    assert not world.end.again
    raised = Failed("env0", "stepping", "ValueError: 7", "Traceback ...", {})
    world = ready_world(**(BACK | {"comebacks_on_error": True}))
    world.deliver(raised)
    assert not world.end.again, "it has begun, and would lose what it has trained since"


def test_run_that_is_asked_to_end_does_not_come_back() -> None:
    world = ready_world(comebacks=1, checkpoint_at_end=True)
    ticket(world)
    world.deliver(STOP)
    assert world.ended is None
    world.deliver(NodeExited("optimizer", "killed by SIGKILL"))
    assert not world.end.again
