"""What the coordinator promises, over random durations in virtual time."""

from __future__ import annotations

import heapq
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast_core.integrations.coordinator import Coordinator, Round
from fast_core.messages import RolloutOrder


def coordinator(**changes: Any) -> Coordinator:
    given: dict[str, Any] = {
        "collectors": 1,
        "degree": 0,
        "queue_size": 10,
        "updates_per_collection": 1,
        "replay_ratio": None,
        "replays": False,
        "async_eval": False,
    }
    return Coordinator(**{**given, **changes})


class Host:
    """Collectors, a learner and an evaluator that only take time; checks as it goes."""

    def __init__(self, core: Coordinator, given: dict[str, Any], draw: Any) -> None:
        self.core, self.given, self.draw = core, given, draw
        self.now_s, self.events, self.serial = 0.0, [], 0  # type: ignore[var-annotated]
        self.acted: dict[RolloutOrder, int] = {}
        self.rows: dict[RolloutOrder, int] = {}
        self.running: set[RolloutOrder] = set()
        self.rounds: list[tuple[Round, int]] = []
        self.training = self.evaluating = False
        self.shared = 0  # version of the weights that collectors get

    def later(self, what: str, value: Any = None) -> None:
        self.serial += 1
        at_s = self.now_s + self.draw(st.integers(1, 30))
        heapq.heappush(self.events, (at_s, self.serial, what, value))

    def start(self) -> None:
        core, given = self.core, self.given
        if not self.evaluating and core.start_evaluation(core.updates):
            self.evaluating = True
            self.later("evaluated")
        may = core.can_collect()
        orders = core.start_collections(self.now_s)
        assert may == bool(orders)
        for order in orders:
            assert (
                given["async_eval"]
                or not self.evaluating
                or order.ticket * given["collectors"] < len(self.acted)
            ), "only a round that has begun goes on beside an evaluation"
            self.acted[order] = self.shared
            self.running.add(order)
            self.later("collected", order)
        assert len(self.acted) <= given["collectors"] * (len(self.done) + given["degree"] + 1)
        may = core.can_train()
        if may:
            assert given["async_eval"] or not self.evaluating
            one = core.start_training(self.now_s)
            assert one is not None
            self.rounds.append((one, core.updates))
            self.training = True
            if given["degree"] == 0:
                assert not self.running, "degree 0 is alternation"
            self.later("trained", one)

    @property
    def done(self) -> list[tuple[Round, int]]:
        return self.rounds[: len(self.rounds) - self.training]

    def run(self) -> None:
        core = self.core
        core.want_evaluation()
        self.start()
        while not core.finished:
            assert self.events, "somebody can work until all is done"
            self.now_s, _, what, value = heapq.heappop(self.events)
            if what == "collected":
                self.running.discard(value)
                self.rows[value] = self.draw(st.integers(1, 9))
                version = self.acted[value]
                core.collected(value.shard, version, self.rows[value], self.now_s)
            elif what == "trained":
                due = core.exchange_due
                self.training = False
                core.trained(value.updates, self.now_s, exchanged=due)
                assert not core.exchange_due
                self.shared = core.updates if due else self.shared
                if not core.why and self.draw(st.booleans()):
                    core.want_evaluation()
            else:
                self.evaluating = False
                core.evaluated()
            waiting = Counter(order.shard for order in self.acted)
            waiting.subtract(order.shard for one, _ in self.done for order in one.orders)
            assert max(waiting.values(), default=0) <= self.given["queue_size"] + 1
            self.start()


@settings(max_examples=60)
@given(st.data())
def test_lag_is_bounded_nothing_is_lost_and_order_is_kept(data: st.DataObject) -> None:
    ratio = data.draw(st.sampled_from([None, Fraction(1, 3), Fraction(2)]))
    given = {
        "collectors": data.draw(st.integers(1, 4)),
        "degree": data.draw(st.integers(0, 4)),
        "queue_size": data.draw(st.integers(1, 4)),
        "updates_per_collection": None if ratio else data.draw(st.integers(1, 3)),
        "replay_ratio": ratio,
        "async_eval": data.draw(st.booleans()),
        "sync_interval": data.draw(st.integers(1, 6)),
        "max_env_steps": 40,
        "max_updates": data.draw(st.sampled_from([None, 12])),
    }
    core = coordinator(**given)
    host = Host(core, given, data.draw)
    host.run()
    told, granted = core.statistics(), [one.updates for one, _ in host.rounds]
    trained = [order for one, _ in host.rounds for order in one.orders]
    assert Counter(trained) == Counter([*host.acted]), "each collection trains once"
    assert told.env_steps_trained == told.env_steps_collected == sum(host.rows.values())
    if ratio:
        assert sum(granted) == int(ratio * told.env_steps_trained)
    else:
        assert granted == [given["updates_per_collection"] * given["collectors"]] * len(granted)
    lags = []
    for number, (one, before) in enumerate(host.rounds):
        assert one.ticket == number
        oldest = min(host.acted[order] for order in one.orders)
        lags.append(before + max(one.updates - 1, 0) - oldest)
        bound = sum(granted[max(number - given["degree"], 0) : number + 1]) - 1
        assert before - oldest + one.updates - 1 <= bound
        assert given["degree"] or [o.shard for o in one.orders] == [*range(given["collectors"])]
    assert told.lag_max == max(lags)


def test_round_that_reaches_the_limit_is_the_last_one_to_begin() -> None:
    core = coordinator(degree=3, max_updates=5, updates_per_collection=2)
    host = Host(core, {"collectors": 1, "degree": 3, "queue_size": 10, "async_eval": False}, one)
    host.run()
    assert [granted.updates for granted, _ in host.rounds] == [2, 2, 2]
    assert core.why == "6 updates (max_train_iter: 5)"


def one(strategy: Any) -> Any:
    """The least that may be drawn."""
    return 1 if "integers" in repr(strategy) else False


def test_updates_that_the_learner_does_not_take_are_no_part_of_the_limit() -> None:
    core = coordinator(max_updates=2)
    for number, taken in enumerate((0, 0, 1, 1)):
        assert core.can_collect() and not core.finished
        (order,) = core.start_collections(number)
        core.collected(order.shard, core.updates, 4, number)
        assert core.start_training(number)
        core.trained(taken, number)
    assert core.finished and core.updates == 2


def test_weights_are_exchanged_every_few_rounds() -> None:
    core = coordinator(degree=3, sync_interval=2, max_updates=8)
    exchanged = []
    for ticket in range(8):
        core.start_collections(ticket)
        core.collected(0, 0 if ticket < 2 else core.updates - core.updates % 2, 1, ticket)
        assert core.start_training(ticket)
        exchanged.append(core.exchange_due)
        core.trained(1, ticket, exchanged=core.exchange_due)
    assert exchanged == [False, True] * 4 and core.statistics().lag_max == 1


def test_degree_that_falls_asks_for_the_weights_that_it_needs() -> None:
    """Else nothing could be collected any more: all was trained, with weights of before."""
    core = coordinator(degree=-1, sync_interval=4, max_updates=60)
    assert core._flow.auto is not None
    core._flow.auto.state().degree = 3
    (order,) = core.start_collections(0.0)
    core.collected(order.shard, 0, 1, 0.0)
    assert core.start_training(0.0)
    core.trained(1, 0.0, exchanged=core.exchange_due)
    assert core.can_collect() and not core.exchange_due
    core._flow.auto.state().degree = 0
    assert not core.can_collect() and core.exchange_due
    core.exchanged()
    assert core.can_collect() and not core.exchange_due


def test_statistics_can_be_read() -> None:
    core = coordinator(degree=2)
    (order,) = core.start_collections(0.0)
    core.collected(order.shard, 0, 7, 1.0)
    core.start_collections(1.0)
    assert core.start_training(1.0)
    core.trained(1, 3.0, {"ess": 0.5})
    table = core.statistics().table().splitlines()
    assert table[0].endswith("  async, degree 2")
    assert table[1].endswith("2 admitted, 1 collected, 1 merged, 1 trained")
    assert table[2].endswith("7 collected, 7 trained, 0 dropped")
    assert table[5].endswith("3.00 s, waiting 0.00 s")
    assert table[6].endswith("2.00 s, waiting 1.00 s")
    assert table[8].endswith("0.500") and table[9].endswith("not told")
    assert core.statistics().line().startswith("degree 2, admitted 2, merged 1, trained 1, lag 0.0")


def test_stop_trains_on_what_has_begun_and_begins_no_more() -> None:
    core = coordinator(degree=2, max_updates=100)
    (first,) = core.start_collections(0.0)
    core.want_evaluation()
    assert core.start_evaluation(core.updates) and not core.can_evaluate()
    core.evaluated(stop=True)
    assert not core.can_collect() and not core.finished
    core.collected(first.shard, 0, 1, 1.0)
    assert core.can_train() and core.start_training(1.0)
    core.trained(1, 2.0)
    assert core.finished and core.why == "the evaluator said stop"


def test_stop_of_an_evaluation_leaves_no_other_one_waiting() -> None:
    core = coordinator(async_eval=True)
    core.want_evaluation()
    assert core.start_evaluation(core.updates)
    core.want_evaluation()
    core.evaluated(stop=True)
    core.want_evaluation()
    assert not core.can_evaluate() and core.finished


def test_weights_that_an_evaluation_is_or_was_about_are_known() -> None:
    core = coordinator(async_eval=True, degree=1)
    assert not core.evaluates_newest
    core.want_evaluation()
    assert core.evaluates_newest and core.start_evaluation(0)
    for version in (1, 2):
        (order,) = core.start_collections(float(version))
        core.collected(order.shard, version - 1, 1, float(version))
        assert core.start_training(float(version))
        core.trained(1, float(version))
        assert not core.evaluates_newest
        if version == 1:
            core.want_evaluation()
            assert core.evaluates_newest
    core.evaluated()
    assert core.start_evaluation(2) and core.evaluates_newest, "it began with newer ones"


def test_requests_that_come_while_an_evaluation_runs_coalesce() -> None:
    core = coordinator(async_eval=True)
    for _ in range(4):
        core.want_evaluation()
        core.start_evaluation(core.updates)
    core.evaluated()
    assert core.start_evaluation(core.updates)
    core.evaluated()
    told = core.statistics()
    assert (told.evaluations_run, told.evaluations_coalesced) == (2, 2)


@pytest.mark.parametrize(("collecting_s", "training_s", "least"), [(0.2, 0.2, 1), (1.0, 0.001, 0)])
def test_degree_is_chosen_where_it_pays(collecting_s: float, training_s: float, least: int) -> None:
    core, now_s = coordinator(degree=-1, max_updates=60), 0.0
    assert core.statistics().mode == "auto"
    while core.degree == 0 and not core.finished:
        (order,) = core.start_collections(now_s)
        now_s += collecting_s
        core.collected(order.shard, core.updates, 4, now_s)
        assert core.start_training(now_s)
        now_s += training_s
        core.trained(1, now_s, {"ess": 1.0})
    assert core.degree >= least and (core.degree == 0) == (least == 0)
    assert core.decisions and "side by side" in core.decisions[0]
