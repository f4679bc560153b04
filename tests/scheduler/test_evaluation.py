import math

import pytest

from fast_core.messages import Collect, Evaluate, Evaluated, Played, Snapshot, SnapshotTaken, Train
from fast_core.messages.launching import EndRun
from fast_core.scheduler import LAUNCHER, Send
from fast_core.scheduler.evaluation import Evaluations, EvaluationState
from fast_core.scheduler.state import SavedState, encode
from tests.scheduler.simulation import World, make_settings
from tests.scheduler.test_checkpointing import save_parts
from tests.scheduler.test_training import collect_all, commands, ticket, train_one


def evaluating_world(scores: dict[int, float] | None = None, **changes: object) -> World:
    values: dict[str, object] = {
        "evaluator": "evaluator",
        "eval_every_env_steps": 20,
        "stop_env_steps": 200,
    }
    known = scores or {}
    return World(
        make_settings(**(values | changes)), score=lambda v: known.get(v, 0.0)
    ).make_ready()


def snapshot(world: World) -> list[Send]:
    task = world.start("optimizer")
    assert isinstance(task, Snapshot)
    return world.finish("optimizer")


def evaluate(world: World) -> list[Send]:
    return world.do("evaluator")


def played(world: World) -> list[Send]:
    """The evaluation that is due, from its snapshot to its result."""
    snapshot(world)
    return evaluate(world)


def test_crossing_the_interval_snapshots_before_anything_else() -> None:
    world = evaluating_world(eval_every_env_steps=30)
    assert commands(ticket(world), Snapshot) == []
    sends = ticket(world)
    kinds = [type(command) for node, command in sends if node != "launcher"]
    assert kinds == [Snapshot, Collect, Collect]
    (_, command), *_ = snapshot(world)
    assert command == Evaluate(request=1, version=8, env_steps=40, episodes=2)


def test_several_multiples_crossed_at_once_ask_once() -> None:
    world = evaluating_world(eval_every_env_steps=7)
    ticket(world)
    played(world)
    assert world.scheduler.statistics().evaluations_finished == 1
    assert world.can_start() != ["optimizer"]


def test_no_evaluation_before_the_first_update() -> None:
    world = evaluating_world()
    assert commands(world.log, Snapshot) == []


def test_one_evaluation_runs_and_the_newest_request_waits() -> None:
    world = evaluating_world()
    ticket(world)
    snapshot(world)
    for _ in range(3):  # tickets 1 to 3 are due while request 1 runs
        assert commands(ticket(world), Snapshot) == []
    statistics = world.scheduler.statistics()
    assert statistics.evaluation_running and statistics.evaluations_coalesced == 2
    sends = evaluate(world)
    assert [c for _, c in commands(sends, Snapshot)] == [Snapshot(2)]
    assert "coalesced with 2 requests" in world.audit.decisions[-1].why
    ((_, command),) = commands(snapshot(world), Evaluate)
    assert isinstance(command, Evaluate) and command.version == 16, "the newest version"
    assert world.scheduler.statistics().evaluations_coalesced == 2


def test_snapshot_stands_before_the_next_training() -> None:
    world = evaluating_world(degree=1, slots_per_shard=2)
    collect_all(world)
    train_one(world)  # ticket 0; ticket 1 had been sent before anything was due
    collect_all(world)
    kinds = [type(task) for task in world.inbox["optimizer"]]
    assert kinds == [Train, Snapshot, Train]


def test_synchronous_evaluation_holds_admission() -> None:
    world = evaluating_world(eval_mode="sync")
    sends = ticket(world)
    assert commands(sends, Snapshot) and not commands(sends, Collect)
    assert not commands(snapshot(world), Collect)
    assert len(commands(evaluate(world), Collect)) == 2


def test_synchronous_evaluation_is_of_the_version_of_its_own_moment_above_degree_0() -> None:
    """The next tickets are ready before the one that crosses the interval is trained."""
    world = evaluating_world(eval_mode="sync", eval_every_env_steps=40, degree=3, slots_per_shard=4)
    for _ in range(4):
        collect_all(world)
    assert [type(task) for task in world.inbox["optimizer"]] == [Train, Train]
    train_one(world)
    assert not commands(train_one(world), Train)
    ((_, command),) = commands(snapshot(world), Evaluate)
    assert isinstance(command, Evaluate) and (command.version, command.env_steps) == (8, 40)
    assert len(commands(evaluate(world), Train)) == 1, "what was ready waited for it"


@pytest.mark.parametrize(
    ("scores", "held", "version"),
    [
        ({4: 9.0, 8: 10.0}, 1, 8),
        ({4: 10.0, 8: 9.0, 12: 11.0, 16: 12.0}, 2, 16),
        ({4: math.nan, 8: 10.0}, 1, 8),
        ({4: 10.0, 8: math.nan, 12: 10.0, 16: 10.0}, 2, 16),
    ],
)
def test_score_held_long_enough_ends_the_run(
    scores: dict[int, float], held: int, version: int
) -> None:
    world = evaluating_world(scores, eval_mode="sync", stop_score=10.0, stop_score_held=held)
    while world.ended is None:
        ticket(world)
        played(world)
    assert world.ended.reason == "finished"
    assert world.ended.text == (
        f"solved: mean return {scores[version]:.6g} over 2 episodes of version {version} "
        f"(stop.score: 10, stop.score_held: {held})"
    )


def test_score_is_reached_where_it_is_asked_for() -> None:
    world = evaluating_world(stop_score=10.0, stop_score_on="windy", stop_env_steps=80)
    for number, (own, windy) in enumerate([(99.0, 1.0), (1.0, 10.0)], start=1):
        ticket(world)
        snapshot(world)
        others = {"windy": Played((windy, windy), (1, 1)), "calm": Played((99.0,) * 2, (1, 1))}
        version = 4 * number
        world.inbox["evaluator"].clear()
        world.deliver(
            Evaluated("evaluator", number, version, 20 * number, (own,) * 2, (1, 1), {}, others)
        )
        if number == 1:
            assert world.scheduler.statistics().score_streak == 0
    _, second = world.told("evaluated")
    assert second == "request 2: mean return 10 over 2 episodes of version 8 in 'windy'"
    assert any("solved" in why for why in world.told("stop"))


def test_streak_begins_anew_where_the_score_is_of_another_environment() -> None:
    saved = SavedState(encode([EvaluationState(score=10.0, score_on="windy", streak=1)]))
    for where, streak in (("windy", 1), (None, 0)):
        settings = make_settings(
            evaluator="evaluator", eval_every_env_steps=20, stop_score=10.0, stop_score_on=where
        )
        assert Evaluations(settings, saved).kept.streak == streak


def test_too_few_episodes_in_another_environment_are_a_fault() -> None:
    world = evaluating_world()
    ticket(world)
    snapshot(world)
    others = {"windy": Played((1.0,), (1,))}
    world.deliver(Evaluated("evaluator", 1, 4, 20, (1.0, 1.0), (1, 1), {}, others))
    assert world.ended is not None and "exactly 2 were asked for" in world.ended.text


def test_evaluation_with_an_unknown_outcome_reaches_no_score() -> None:
    """However good the others are: an episode that breaks might have been the worst."""
    world = evaluating_world(stop_score=10.0, eval_mode="sync", stop_env_steps=40)
    ticket(world)
    snapshot(world)
    world.deliver(Evaluated("evaluator", 1, 4, 20, (99.0, math.nan), (1, 1)))
    assert world.ended is None
    statistics = world.scheduler.statistics()
    assert (statistics.evaluation_mean, statistics.score_streak) == (None, 0)
    (why,) = world.told("evaluated")
    assert why == (
        "request 1: no mean return, since some of 2 episodes of version 4 met NaN or infinity"
    )


def test_solved_names_the_evaluated_version_and_evaluates_no_more() -> None:
    world = evaluating_world({4: 10.0}, stop_score=10.0, eval_at_end=True, checkpoint_at_end=True)
    ticket(world)
    snapshot(world)
    ticket(world)  # the learner is at version 8 when version 4 turns out to be good
    sends = evaluate(world)
    assert commands(sends, Snapshot) == [], "the waiting request is not started any more"
    ticket(world)
    save_parts(world)
    world.do(LAUNCHER)
    assert world.end.text == (
        "solved: mean return 10 over 2 episodes of version 4 (stop.score: 10, stop.score_held: 1); "
        "training went on to version 12, where a resume begins"
    )
    assert world.scheduler.statistics().evaluations_finished == 1


def test_running_evaluation_is_waited_for_at_the_end() -> None:
    world = evaluating_world(stop_env_steps=20)
    ticket(world)
    assert world.ended is None
    snapshot(world)
    assert world.ended is None
    evaluate(world)
    assert world.end.text == (
        "20 env steps trained (stop.env_steps: 20); "
        "last evaluation: mean return 0 over 2 episodes of version 4"
    )


def test_last_version_is_evaluated_at_the_end_unless_it_was() -> None:
    for every, requests in ((20, [4]), (1000, [4])):
        world = evaluating_world(stop_env_steps=20, eval_every_env_steps=every, eval_at_end=True)
        ticket(world)
        played(world)
        assert world.ended is not None
        assert [event.version for event in world.audit.evaluated] == requests


def test_last_version_is_not_evaluated_unless_asked() -> None:
    world = evaluating_world(stop_env_steps=20, eval_every_env_steps=1000, eval_at_end=False)
    ticket(world)
    assert world.ended is not None
    assert world.audit.evaluated == []


def test_final_evaluation_waits_for_the_running_one() -> None:
    world = evaluating_world(stop_env_steps=40, eval_at_end=True, eval_every_env_steps=20)
    ticket(world)
    snapshot(world)
    ticket(world)
    assert world.ended is None
    evaluate(world)
    played(world)
    assert world.ended is not None
    assert [event.version for event in world.audit.evaluated] == [4, 8]


def test_score_reached_on_the_way_to_a_limit_is_said_with_its_version() -> None:
    """Though the last version, evaluated after it, does not reach it any more."""
    world = evaluating_world({4: 10.0}, stop_score=10.0, stop_env_steps=40, eval_at_end=True)
    ticket(world)
    snapshot(world)
    ticket(world)  # the limit, while version 4 is on its way
    evaluate(world)
    played(world)
    assert world.end.text == (
        "40 env steps trained (stop.env_steps: 40); "
        "solved: mean return 10 over 2 episodes of version 4; "
        "last evaluation: mean return 0 over 2 episodes of version 8; "
        "training went on to version 8"
    )


def test_final_evaluation_that_reaches_the_score_says_so() -> None:
    world = evaluating_world({4: 10.0}, stop_score=10.0, stop_env_steps=20)
    ticket(world)
    played(world)
    assert world.end.text.endswith("version 4 (solved)")


def test_stale_evaluation_events_are_counted_and_ignored() -> None:
    world = evaluating_world()
    ticket(world)
    stale = [
        Evaluated("evaluator", 1, 4, 20, (1.0, 1.0), (1, 1)),  # before its snapshot
        SnapshotTaken("optimizer", 2, 4, 20),
        SnapshotTaken("env0", 1, 4, 20),
    ]
    for event in stale:
        assert world.scheduler.handle(event, 0.0) == []
    snapshot(world)
    more = [
        SnapshotTaken("optimizer", 1, 4, 20),
        Evaluated("evaluator", 2, 4, 20, (1.0, 1.0), (1, 1)),
        Evaluated("evaluator", 1, 5, 20, (1.0, 1.0), (1, 1)),
        Evaluated("env0", 1, 4, 20, (1.0, 1.0), (1, 1)),
    ]
    for event in more:
        assert world.scheduler.handle(event, 0.0) == []
    assert world.scheduler.statistics().stale_events == 7
    evaluate(world)
    assert world.scheduler.statistics().evaluations_finished == 1


def test_wrong_number_of_episodes_ends_the_run() -> None:
    world = evaluating_world()
    ticket(world)
    snapshot(world)
    sends = world.deliver(Evaluated("evaluator", 1, 4, 20, (1.0,), (1,)))
    end = sends[-1].command
    assert isinstance(end, EndRun)
    assert end.reason == "failed" and "1 episodes for evaluation 1; exactly 2" in end.text


def test_request_that_the_snapshot_already_covers_is_not_played_again() -> None:
    evaluations = Evaluations(make_settings(evaluator="eval", eval_every_env_steps=1), None)
    evaluations.ask()
    snapshot = evaluations.start({})
    evaluations.ask()  # by a `Trained` that the optimizer sent before it took the snapshot
    evaluations.snapshot_taken(SnapshotTaken("opt", snapshot.request, version=8, env_steps=64))
    assert not evaluations.kept.due
    assert evaluations.kept.coalesced == 1


def test_same_version_played_twice_does_not_hold_the_score_twice() -> None:
    evaluations = Evaluations(
        make_settings(evaluator="eval", eval_every_env_steps=1, stop_score=1.0, stop_score_held=2),
        None,
    )
    for version, streak in ((8, 1), (8, 1), (16, 2)):
        evaluations.ask()
        snapshot = evaluations.start({})
        evaluations.snapshot_taken(SnapshotTaken("opt", snapshot.request, version, 64))
        evaluations.evaluated(
            Evaluated("eval", snapshot.request, version, 64, returns=(2.0,), lengths=(1,))
        )
        assert evaluations.kept.streak == streak
