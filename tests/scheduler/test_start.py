from fast_core.messages import Assign, Collect, Ready, Restoring
from fast_core.messages.launching import Decision, EndRun, Tick
from fast_core.scheduler import LAUNCHER, Scheduler
from tests.scheduler.simulation import World, make_settings, simulate


def test_nothing_is_sent_until_every_node_is_ready() -> None:
    world = World(make_settings(evaluator="evaluator", other_nodes=("metrics",)))
    nodes = world.settings.nodes
    assert nodes == ("optimizer", "env0", "env1", "evaluator", "metrics")
    for node in nodes[:-1]:
        assert world.deliver(Ready(node, 1)) == []
    assert world.scheduler.statistics().phase == "starting"
    sends = world.deliver(Ready(nodes[-1], 1))
    work = [send for send in sends if send.node != LAUNCHER]
    assert [type(command) for _, command in work] == [Assign, Assign, Collect, Collect]
    assert world.scheduler.statistics().phase == "training"


def test_start_and_assignment_are_written_down() -> None:
    world = World(make_settings()).make_ready()
    assert [decision.what for decision in world.audit.decisions] == ["start", "assign"]


def test_shards_are_assigned_in_contiguous_blocks() -> None:
    world = World(make_settings(shards=5)).make_ready()
    assert world.audit.owner == {0: "env0", 1: "env0", 2: "env1", 3: "env1", 4: "env1"}


def test_ready_of_a_stranger_or_for_the_second_time_is_counted_and_ignored() -> None:
    world = World(make_settings())
    for node in ("optimizer", "optimizer", "stranger", "env0"):
        assert world.deliver(Ready(node, 1)) == []
    assert world.scheduler.statistics().stale_events == 2
    assert world.deliver(Ready("env1", 1)) != []


def test_missing_nodes_end_the_run_by_name_at_the_time_limit() -> None:
    scheduler = Scheduler(make_settings(start_timeout_s=30.0))
    assert scheduler.next_wakeup_s() == 0.0, "the clock is wanted at once"
    assert scheduler.handle(Tick(), 100.0) == []
    assert scheduler.next_wakeup_s() == 130.0
    assert scheduler.handle(Ready("env0", 1), 129.9) == []
    sends = scheduler.handle(Tick(), 130.0)
    assert [type(command) for _, command in sends] == [Decision, EndRun]
    end = sends[-1].command
    assert isinstance(end, EndRun)
    assert end.reason == "failed"
    assert "within 30 s" in end.text
    assert end.text.endswith("missing: optimizer, env1")
    assert scheduler.next_wakeup_s() is None


def test_node_that_steps_open_episodes_again_is_waited_for_while_it_comes_forward() -> None:
    scheduler = Scheduler(make_settings(start_timeout_s=30.0))
    scheduler.handle(Tick(), 100.0)
    for now_s in (125.0, 150.0, 175.0):
        assert scheduler.handle(Restoring("env0", int(now_s), 1000), now_s) == []
        assert scheduler.handle(Tick(), now_s + 24.0) == []
    end = scheduler.handle(Tick(), 205.0)[-1].command
    assert isinstance(end, EndRun)
    assert "checkpoint.exact=never begins new ones" in end.text


def test_run_that_begins_episodes_anew_is_marked_for_good() -> None:
    world = World(make_settings(checkpoint_at_end=True, stop_env_steps=20))
    world.deliver(Restoring("env0", 9, 9, 2, "it differs"))
    world.deliver(Restoring("env1", 9, 9, 1, "it differs too"))
    world.make_ready()
    (why,) = world.told("not exact")
    assert " 3 open episodes" in why and why.endswith("The first: it differs")
    simulate(world)
    resumed = World(world.settings, resumed=world.checkpoints[-1])
    resumed.deliver(Restoring("env0", 9, 9))
    resumed.make_ready()
    assert resumed.scheduler.statistics().begun_anew == 3
    assert not resumed.told("not exact")


def test_nodes_whose_reports_were_read_late_count_as_ready() -> None:
    """One thread that makes all nodes in turn reads them only then; the time is asked after."""
    scheduler = Scheduler(make_settings(start_timeout_s=30.0))
    scheduler.handle(Tick(), 100.0)
    for node in ("optimizer", "env0"):
        assert scheduler.handle(Ready(node, 1), 140.0) == []
    assert scheduler.handle(Ready("env1", 1), 140.0) != []
    assert scheduler.statistics().phase == "training"


def test_start_in_time_disarms_the_limit() -> None:
    world = World(make_settings()).make_ready()
    world.now_s = 1000.0
    assert world.deliver(Tick()) == []
    assert world.scheduler.next_wakeup_s() is None
