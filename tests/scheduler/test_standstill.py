"""Work that is lost though every node is well: told, and then the end, with who owes what."""

from __future__ import annotations

import pytest

from fast_core.messages import Evaluate, Ready, RolloutReady, Train
from fast_core.messages.launching import EndRun, Tick
from fast_core.scheduler import Scheduler
from fast_core.scheduler.decisions import debts
from fast_core.scheduler.standstill import Debt, Standstill
from tests.scheduler.simulation import World, make_settings, simulate

FIRST_S, REPEAT_S = 600.0, 60.0
EVENT = RolloutReady("env0", 0, 1, 0, 1, 0, 0, (), ())
DEBT = Debt("env0", RolloutReady, "has not collected")
LIMITS = {"work_timeout_s": FIRST_S, "repeat_timeout_s": REPEAT_S}


def world(*forgets: tuple[str, str], **changes: object) -> World:
    made = World(make_settings(**(LIMITS | {"stop_env_steps": 400} | changes)))
    made.forgets = set(forgets)
    made.make_ready()
    return made


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_stage_that_forgets_one_rollout_is_named(degree: int) -> None:
    ran = world(
        ("sort", "Transform 1.4"),
        degree=degree,
        slots_per_shard=degree + 1,
        other_nodes=("filter", "sort"),
        stages=("filter", "sort"),
    )
    end = simulate(ran)
    assert end.reason == "failed"
    told, last = ran.told("standstill")
    for text in (told, last):
        assert "sort has not sent Transformed of rollout 4 of shard 1" in text
        assert "filter" not in text
    assert "nothing came for 30 s" in told
    assert "the run ends if that goes on for 60 s" in told
    assert "nothing came for 60 s" in last
    assert "(supervision.repeat_timeout_s)" in last
    assert end.cause is not None
    assert end.cause.node == "sort"


def test_what_never_came_before_may_take_longer() -> None:
    """A stage that asks somebody elsewhere may do nothing meanwhile, and be slow at first."""
    forgotten, stage = ("filter", "Transform 0.1"), ("filter",)
    ran = world(forgotten, shards=1, env_nodes=("env0",), other_nodes=stage, stages=stage)
    assert simulate(ran).reason == "failed"
    told, last = ran.told("standstill")
    assert "nothing came for 300 s" in told
    assert "nothing came for 600 s" in last
    assert "(supervision.work_timeout_s)" in last


@pytest.mark.parametrize(
    ("forgotten", "text"),
    [
        (("env1", "RolloutOrder 1.5"), "env1 has not collected rollout 5 of shard 1"),
        (("optimizer", "Train 6"), "optimizer has not trained on ticket 6"),
    ],
)
def test_whoever_owes_something_is_named(forgotten: tuple[str, str], text: str) -> None:
    ran = world(forgotten)
    end = simulate(ran)
    assert end.cause is not None
    assert text in end.cause.error
    assert end.cause.node == forgotten[0]


def test_evaluation_checkpoint_and_change_are_debts_too() -> None:
    ran = world(
        evaluator="evaluator",
        eval_every_env_steps=20,
        eval_mode="sync",
        checkpoint_every_updates=8,
        savers=("book",),
        stop_env_steps=200,
    )
    ran.forgets = {("evaluator", "Evaluate")}
    assert "evaluator has no result of evaluation 1" in simulate(ran).text
    ran = world(checkpoint_every_updates=8, savers=("book",))
    ran.forgets = {("book", "Save")}
    assert "book has not sent Saved of checkpoint 1" in simulate(ran).text


def test_work_that_is_being_done_is_not_lost_however_long_it_takes() -> None:
    slow_ms = 1000 * 20 * round(FIRST_S)
    ran = world(evaluator="evaluator", eval_every_env_steps=40)
    assert simulate(ran, scale_ms={Train: slow_ms, Evaluate: slow_ms}).reason == "finished"
    assert ran.now_s > 20 * FIRST_S
    assert ran.told("standstill") == []


def test_no_limit_means_no_limit() -> None:
    scheduler = Scheduler(make_settings(work_timeout_s=None, stop_time_s=None))
    for node in ("env0", "env1", "optimizer"):
        scheduler.handle(Ready(node, 1), 0.0)
    assert scheduler.next_wakeup_s() is None
    assert not any(isinstance(s.command, EndRun) for s in scheduler.handle(Tick(0.0), 1e9))


def test_nothing_is_said_while_nothing_is_owed() -> None:
    still = Standstill(FIRST_S, REPEAT_S)
    still.take(EVENT, 0.0)
    assert still.look(iter(()), 0.0, 1000.0) is None


def test_long_gaps_are_the_scale_of_later_ones() -> None:
    still = Standstill(FIRST_S, REPEAT_S)
    for at_s in (0.0, 5.0, 10.0):
        still.take(EVENT, at_s)
    assert still.check_s == 10.0 + REPEAT_S / 2
    assert still.look(iter([DEBT]), 0.0, 40.0) is None, "20 times 5 s may pass"
    assert still.check_s == 60.0
    told = still.look(iter([DEBT]), 0.0, 60.0)
    assert told is not None
    assert not told.over
    assert still.check_s == 110.0
    over = still.look(iter([DEBT]), 0.0, 110.0)
    assert over is not None
    assert over.over


def test_what_always_takes_longer_than_the_limit_of_repeats_is_waited_for() -> None:
    """Such as a stage that asks people: what the first answer took is what others take."""
    still = Standstill(FIRST_S, REPEAT_S)
    still.take(Ready("env0", 1), 1e6)
    for first_s in (1e6, 1e6 + 70.0):
        now_s = first_s
        while (now_s := still.check_s or 0.0) < first_s + 70.0:
            verdict = still.look(iter([DEBT]), 0.0, now_s)
            assert verdict is None or not verdict.over
        still.take(EVENT, first_s + 70.0)


def test_pause_of_everybody_is_no_standstill() -> None:
    """Ctrl-Z, a container that is frozen: the first to go on may be whoever looks."""
    still = Standstill(FIRST_S, REPEAT_S)
    for at_s in (0.0, 1.0, 2.0):
        still.take(EVENT, at_s)
    assert still.look(iter([DEBT]), 2.0, 10_000.0) is None
    assert still.check_s == 10_000.0 + REPEAT_S / 2


def test_debts_of_many_shards_are_counted_and_not_all_named() -> None:
    shards = 12
    ran = world(shards=shards, stop_env_steps=40 * shards)
    ran.paused = {"env0", "env1"}
    assert len(list(debts(ran.scheduler._life))) == shards
    assert ran.scheduler.owed().endswith("; and 7 more")
