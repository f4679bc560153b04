"""The degree that a run chooses by itself: which, why, and that every rule still holds."""

from __future__ import annotations

import math
from random import Random

import pytest

from fast_core.messages import RolloutOrder, Train
from fast_core.scheduler.degree import (
    Auto,
    AutoState,
    Spent,
    Spread,
    effective_share,
    gain,
    slower_side,
    start_degree,
)
from fast_core.scheduler.statistics import Statistics
from fast_core.scheduler.times import Times
from tests.forms import slow_but
from tests.scheduler.simulation import Task, World, make_settings, simulate

SHARDS, MOST = 4, 16


def spent(**changes: float) -> Spent:
    """Four tickets of a second's collecting and half a second's training, one after the other."""
    values: dict[str, float] = {
        "shards": SHARDS,
        "tickets": 4,
        "total_s": 6.0,
        "collecting_s": 4.0,
        "rounds_s": 4.0,
        "training_s": 2.0,
        "rollouts": 16,
    }
    squares = changes.pop("squares", 16.0)
    spreads = {"ordered": Spread(16, 16.0, squares), "served": Spread(16, 16.0, 1e9)}
    return Spent(**(values | changes), **spreads)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "expected_gain", "expected"),
    [
        ({}, 0.5, 1),  # (1 + 0) / 1
        ({"squares": 20.0}, 0.5, 2),  # dispersed by a half: (1 + 0.5) / 1
        ({"weights_s": 0.4}, 0.5, 2),  # (1 + 0.1) / 1
        ({"training_s": 8.0}, 0.5, 1),  # 1 / 2
        ({"training_s": 4.0}, 1.0, 1),
        ({"collecting_s": 2.0}, 2.0, 2),  # half of the nodes wait for the others: 1 / 0.5
        ({"training_s": 0.19}, 0.0475, 0),  # too little to gain
        ({"training_s": 0.21}, 0.0525, 1),
        ({"training_s": 0.0}, 0.0, 0),
        ({"collecting_s": 0.0, "rounds_s": 0.0, "training_s": 0.0}, 0.0, 0),
    ],
)
def test_start_is_what_littles_law_asks_for_where_it_gains(
    changes: dict[str, float], expected_gain: float, expected: int
) -> None:
    figures = spent(**changes)
    assert gain(figures) == pytest.approx(expected_gain)
    assert start_degree(figures) == expected


def test_slower_side_is_that_with_the_longer_period_whatever_waits_more() -> None:
    assert slower_side(spent(idle_s=0.6, starved_s=3.0)) == ("collecting", pytest.approx(0.1))
    figures = spent(training_s=5.0, idle_s=2.0, starved_s=0.3)
    assert slower_side(figures) == ("training", pytest.approx(0.05))


def looks(auto: Auto, count: int, **changes: float) -> list[int]:
    """The degree after each of so many looks, tickets in between left out."""
    found = []
    whole = {"total_s": 100.0, "rollouts": 400, "tickets": 100}
    while len(found) < count:
        figures = spent(**(whole | {"ess": 90.0, "ess_tickets": 100} | changes))
        passing = auto._passing > 0
        auto.settled(figures)
        if not passing:
            found.append(auto.degree)
    return found


def begun(degree: int, *, most: int = MOST, replays: bool = False) -> Auto:
    return Auto(most, AutoState(degree=degree), replays=replays)


def test_degree_rises_by_one_while_the_slower_side_waits_and_no_further_than_memory() -> None:
    assert looks(begun(1, most=4), 6, idle_s=6.0) == [2, 3, 4, 4, 4, 4]
    assert looks(begun(1), 3, idle_s=5.0) == [1, 1, 1]
    assert looks(begun(1), 3, idle_s=5.0, starved_s=90.0) == [1, 1, 1], "the faster side may wait"


def test_degree_is_halved_while_rows_are_too_old_and_comes_back_late() -> None:
    auto = begun(9)
    assert looks(auto, 4, ess=49.0, idle_s=50.0) == [4, 2, 1, 0]
    # It would grow now, but a degree that was too high is tried again only after some time.
    assert looks(auto, 10, idle_s=50.0) == [0] * 9 + [1]
    auto = begun(9)
    assert looks(auto, 1, ess=49.0) == [4]
    assert looks(auto, 12, idle_s=50.0) == [5, 6, 7, 8, 8, 8, 8, 8, 8, 9, 9, 9]


def test_rows_that_are_too_old_at_once_get_no_older() -> None:
    assert looks(begun(0), 3, ess=49.0, idle_s=50.0) == [0, 0, 0]
    assert looks(Auto(MOST, AutoState(), replays=False), 1, ess=49.0) == [0]


@pytest.mark.parametrize("abreast", [False, True])
def test_dispersion_is_that_of_rollouts_whichever_way_a_node_collects_them(abreast: bool) -> None:
    """Four a round, of a second each: one after the other, or all of them in four seconds."""
    figures = Spent(shards=4)
    for _ in range(8):
        for nth in range(4):
            if abreast:
                figures.completed(4.0, 4.0 if nth == 0 else 0.0)
            else:
                figures.completed(nth + 1.0, 1.0)
    assert figures.dispersion == 0.0


def test_sample_size_of_a_half_is_enough() -> None:
    assert looks(begun(3), 1, ess=50.0, idle_s=6.0) == [4]


def test_algorithm_that_reports_no_sample_size_is_let_run_ahead_with_care_only() -> None:
    assert looks(begun(4), 3, ess_tickets=0, idle_s=50.0) == [5, 5, 5]
    assert looks(begun(4, replays=True), 3, ess_tickets=0, idle_s=50.0) == [5, 6, 7]


def test_degree_that_gains_nothing_is_given_up() -> None:
    auto = Auto(MOST, AutoState(), replays=False)
    assert looks(auto, 1, total_s=150.0) == [1]
    assert looks(auto, 1, total_s=148.0) == [0], "tickets take as long side by side"
    again = looks(auto, 11, total_s=148.0, idle_s=70.0)
    assert again == [*[0] * 9, 1, 0], "it is tried again, late, and found no better"


def test_degree_that_gains_is_kept() -> None:
    auto = Auto(MOST, AutoState(), replays=False)
    assert looks(auto, 1, total_s=150.0) == [1]
    assert looks(auto, 2, total_s=100.0) == [1, 1]
    assert looks(auto, 1, total_s=400.0) == [1], "it was compared once"


def test_nothing_is_decided_on_a_moment() -> None:
    auto = begun(1)
    auto._passing = 0
    for tickets, total_s in ((9, 100.0), (63, 0.9)):
        figures = spent(tickets=tickets, total_s=total_s, idle_s=total_s / 2)
        assert auto.settled(figures) is None and figures.tickets == tickets


def test_tickets_of_the_degree_before_tell_nothing() -> None:
    auto = begun(1)
    assert looks(auto, 1, idle_s=50.0) == [2]
    for _ in range(3):
        figures = spent(tickets=100, total_s=100.0, idle_s=50.0)
        assert auto.settled(figures) is None and figures.tickets == 0
    assert auto.settled(spent(tickets=100, total_s=100.0, idle_s=50.0))


def test_nobody_is_late_because_a_node_is_gone() -> None:
    figures = Spent(shards=2)
    times = Times(("a", "b"), figures, None)
    times.pass_until(0.0)
    for node in ("a", "b"):
        times.ordered(node, 1)
    times.bury("b")
    times.pass_until(1.0)
    assert (times.sides(1.0).collecting_s, times.sides(1.0).collecting_waits_s) == (1.0, 0.0)
    for now_s, whole, starved_s in ((2.0, False, 0.0), (3.0, True, 0.0), (4.0, True, 1.0)):
        times.pass_until(now_s)
        assert figures.starved_s == starved_s
        times.settled(whole=whole)


def test_divergence_tells_the_sample_size_where_the_algorithm_does_not() -> None:
    assert effective_share({"ess": 0.7, "approx_kl": 9.0}) == 0.7
    rng = Random(0)
    ratios = [math.exp(rng.gauss(-0.18, 0.6)) for _ in range(100_000)]  # variance 0.36
    kl = sum(ratio - 1 - math.log(ratio) for ratio in ratios) / len(ratios)
    share = sum(ratios) ** 2 / sum(ratio * ratio for ratio in ratios) / len(ratios)
    assert effective_share({"approx_kl": kl}) == pytest.approx(share, rel=0.02)
    assert effective_share({}) is None
    assert effective_share({"ess": math.nan}) is None


# --- whole runs, in virtual time -----------------------------------------------------------------

PROFILES = {"collect slow": (2000, 1000), "balanced": (1000, 1000), "train slow": (1000, 2000)}


def run_for(
    profile: str, dispersion: float, tickets: int = 150, shards: int = SHARDS, **settings: object
) -> tuple[World, float]:
    """A run of a cost profile, and the rounds it trained on in a second."""
    collect_ms, train_ms = PROFILES[profile]
    rng = Random(1)

    def lasts_ms(node: str, task: Task) -> int | None:
        if isinstance(task, RolloutOrder):
            mean = -dispersion * dispersion / 2
            return round(collect_ms * math.exp(rng.gauss(mean, dispersion)))
        return train_ms if isinstance(task, Train) else None

    values = {
        "shards": shards,
        "env_nodes": tuple(f"env{k}" for k in range(shards)),
        "stop_env_steps": tickets * shards * 10,
        "slots_per_shard": MOST + 1,
    }
    world = World(
        make_settings(**(values | settings)), metrics=lambda lag: {"ess": math.exp(-lag / 100)}
    ).make_ready()
    simulate(world, lasts_ms=lasts_ms)
    return world, tickets / world.scheduler.statistics().elapsed_s


@pytest.mark.parametrize(
    ("profile", "dispersion"),
    slow_but(
        [("collect slow", 0.5), ("balanced", 0.05), ("train slow", 0.5)],
        [(profile, dispersion) for profile in PROFILES for dispersion in (0.05, 0.5)],
    ),
)
def test_auto_reaches_nine_tenths_of_the_best_degree_and_keeps_rows_as_fresh(
    profile: str, dispersion: float
) -> None:
    fixed = {d: run_for(profile, dispersion, degree=d)[1] for d in (0, 1, 2, 4, 8)}
    world, rate = run_for(profile, dispersion, degree=MOST, auto_degree=True)
    assert rate >= 0.9 * max(fixed.values()), (rate, fixed)
    chosen = world.scheduler.statistics().degree
    # No older than what the fastest fixed one needs, but for a step.
    best = min(d for d, value in fixed.items() if value >= 0.97 * max(fixed.values()))
    assert 1 <= chosen <= 2 * best + 1, (chosen, fixed)


@pytest.mark.parametrize(
    "holds",
    [
        {"checkpoint_every_updates": 40},
        {"evaluator": "evaluator", "eval_every_env_steps": 40, "eval_mode": "sync"},
    ],
    ids=["checkpoints", "evaluations"],
)
def test_pipeline_that_fills_anew_after_a_hold_asks_for_no_higher_degree(
    holds: dict[str, object],
) -> None:
    """The learner has nothing to do then, whatever the degree: rows would only become older."""
    fixed = run_for("balanced", 0.05, degree=2, **holds)[1]
    world, rate = run_for("balanced", 0.05, degree=MOST, auto_degree=True, **holds)
    assert rate >= 0.9 * fixed
    assert 1 <= world.scheduler.statistics().degree <= 3


def test_rest_counts_for_neither_side_nor_for_the_rate() -> None:
    figures = Spent(shards=1)
    figures.since(1.0, working=0.5, training=False, held=True)  # the last rollouts
    figures.since(5.0, working=0.0, training=False, held=True)  # the checkpoint
    figures.since(1.0, working=0.0, training=False, held=False)
    assert (figures.total_s, figures.idle_s, figures.starved_s) == (2.0, 1.0, 1.0)


def test_auto_stays_at_0_where_there_is_nothing_to_gain() -> None:
    PROFILES["instant"] = (1000, 20)
    world, _ = run_for("instant", 0.01, degree=MOST, auto_degree=True)
    assert world.scheduler.statistics().degree == 0
    told = world.told("degree")
    assert len(told) == 1 and told[0].startswith("0 -> 0: a round takes 1")


def test_every_change_is_told_with_its_figures() -> None:
    world, _ = run_for("balanced", 0.5, degree=MOST, auto_degree=True)
    told = world.told("degree")
    assert "to collect (rollouts dispersed by 0." in told[0] and "1 s to train on" in told[0]
    assert told[0].startswith("0 -> ") and "faster at most" in told[0]
    assert all("waits" in why or "sample size" in why for why in told[1:])
    degrees = [int(part) for why in told for part in why.partition(":")[0].split(" -> ")]
    assert degrees[1::2][:-1] == degrees[2::2], "each goes on where the last one ended"
    assert degrees[-1] == world.scheduler.statistics().degree


def test_rows_that_are_too_old_bring_the_degree_down() -> None:
    collect = {"degree": MOST, "auto_degree": True}
    world, _ = run_for("balanced", 0.5, **collect)
    fresh = world.scheduler.statistics().degree
    world = World(
        make_settings(**collect, stop_env_steps=4000), metrics=lambda lag: {"ess": 0.4}
    ).make_ready()
    simulate(world)
    assert world.scheduler.statistics().degree == 0 < fresh


def test_warm_up_of_a_replay_tells_nothing() -> None:
    world, _ = run_for(
        "balanced",
        0.05,
        degree=MOST,
        auto_degree=True,
        replay="replay",
        replay_ratio="0.1",
        learning_starts=800,  # 20 rounds
    )
    first = next(send for send in world.log if getattr(send.command, "what", "") == "degree")
    settled = sum(isinstance(s.command, Train) for s in world.log[: world.log.index(first)]) // 2
    assert settled > 20
    assert world.scheduler.statistics().degree >= 1


def test_degree_and_its_reasons_outlive_a_resume() -> None:
    values = {"degree": MOST, "auto_degree": True, "checkpoint_every_updates": 200}
    world, _ = run_for("balanced", 0.5, **values)
    checkpoint = world.checkpoints[-1]
    resumed = World(world.settings, resumed=checkpoint)
    assert resumed.scheduler.statistics().degree == world.scheduler.statistics().degree > 0
    resumed.make_ready()
    assert not resumed.told("degree"), "it is not measured again"
    less = make_settings(**(values | {"degree": 1}), shards=SHARDS)
    assert World(less, resumed=checkpoint).scheduler.statistics().degree == 1


def test_run_of_a_fixed_degree_goes_on_by_itself_and_the_other_way_round() -> None:
    fixed, _ = run_for("balanced", 0.5, degree=2, checkpoint_every_updates=200)
    auto, _ = run_for("balanced", 0.5, degree=8, auto_degree=True, checkpoint_every_updates=200)
    values = {"shards": SHARDS, "slots_per_shard": 9}
    goes_on = make_settings(degree=8, auto_degree=True, **values)
    assert degree_of(World(goes_on, resumed=fixed.checkpoints[-1])) == 0, "it measures first"
    assert degree_of(World(make_settings(degree=3, **values), resumed=auto.checkpoints[-1])) == 3


def test_time_of_each_side_is_told_and_goes_on_over_a_resume() -> None:
    world, _ = run_for("collect slow", 0.0, tickets=20, degree=0, checkpoint_every_updates=40)
    now = world.scheduler.statistics()
    assert (now.collecting_s, now.training_s) == pytest.approx((40.0, 20.0), abs=0.1)
    assert (now.collecting_waits_s, now.training_waits_s) == pytest.approx((20.0, 40.0), abs=0.3)
    assert now.collecting_s + now.collecting_waits_s == pytest.approx(now.elapsed_s)
    assert (now.way, now.tickets_collected, now.tickets_settled) == ("sync", 20, 20)
    resumed = World(world.settings, resumed=world.checkpoints[0]).scheduler.statistics()
    assert resumed.collecting_s == pytest.approx(now.collecting_s / 2, abs=0.1)
    ahead = run_for("balanced", 0.0, tickets=20, degree=1)[0].scheduler.statistics()
    assert (ahead.way, ahead.collecting_s) == ("async", pytest.approx(20.0, abs=0.1))
    assert ahead.collecting_waits_s < 1.5, "but for the last round"


def degree_of(world: World) -> int:
    statistics: Statistics = world.scheduler.statistics()
    return statistics.degree


@pytest.mark.parametrize("part", range(4))
def test_any_change_of_the_degree_keeps_the_bound_and_strands_nothing(part: int) -> None:
    """`Audit` checks every step; the slowest node decides what is left behind."""
    for seed in range(part, 80, 4):
        rng = Random(seed)
        nodes = tuple(f"env{k}" for k in range(rng.randint(1, 4)))
        settings = make_settings(
            shards=rng.randint(len(nodes), 5),
            env_nodes=nodes,
            degree=5,
            auto_degree=True,
            slots_per_shard=6,
            stop_env_steps=rng.randint(1, 1500),
            checkpoint_every_updates=rng.choice([None, 12, 40]),
            stragglers=rng.choice(["wait", "drop"]),
        )
        world = World(settings, oldest_weights=True).make_ready()
        slow = rng.choice([*nodes, settings.optimizer])
        while world.ended is None:
            if rng.random() < 0.05:
                world.use_degree(rng.choice([0, 1, 2, 5]))
            able = [("start", node) for node in world.can_start()]
            able += [("finish", node) for node in world.busy if node != slow or rng.random() < 0.05]
            if able:
                what, node = rng.choice(able)
                getattr(world, what)(node)
            else:
                assert world.busy, f"deadlock: {world.scheduler.statistics()}"
        assert world.ended.reason == "finished"
        assert not world.audit.running and not world.audit.ready and not world.audit.taken
