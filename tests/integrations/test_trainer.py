"""`AsyncTrainer` around hosts that record what they are asked."""

from __future__ import annotations

import _thread
import math
import os
import threading
import time
import traceback
from typing import Any

import pytest

from fast_core.errors import ConfigError, NodeFailed
from fast_core.integrations import AsyncTrainer
from fast_core.integrations.coordinator import Coordinator
from tests.integrations.toy_hosts import Collector, Evaluator, Learner, Raising, run, toy_trainer


class Recorded:
    """All parts in one object: every call is noted."""

    def __init__(self, evaluate_every: int) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.every, self.data = evaluate_every, 0

    def collect(self) -> list[int]:
        self.data += 1
        self.calls.append(("collect", None))
        return [self.data] * 3

    def push(self, data: list[int]) -> None:
        self.calls.append(("push", data))

    def sample(self) -> int:
        self.calls.append(("sample", None))
        return self.data

    def train(self, batch: int) -> None:
        self.calls.append(("train", batch))

    def should_eval(self, train_iter: int) -> bool:
        self.calls.append(("should_eval", train_iter))
        return train_iter % self.every == 0

    def eval(self) -> tuple[bool, float]:
        self.calls.append(("eval", None))
        return False, 1.0


def own_loop(host: Recorded, *, updates: int, limit: int) -> None:
    """What a user had before."""
    train_iter = 0
    while train_iter < limit:
        if host.should_eval(train_iter):
            host.eval()
        host.push(host.collect())
        for _ in range(updates):
            host.train(host.sample())
            train_iter += 1


def threads() -> list[threading.Thread]:
    """Those of trainers; other tests' libraries leave some of their own."""
    return [each for each in threading.enumerate() if "(a thread of process" in each.name]


def test_who_asks_waits_for_those_that_work() -> None:
    ours = Recorded(4)
    trainer = toy_trainer(collector=ours, learner=ours, buffer=ours)
    answers: list[object] = []

    def ask() -> None:
        asked = trainer.coordinator
        answers.extend([asked.can_collect(), asked.can_train(), asked.can_evaluate()])
        answers.extend([asked.degree, asked.statistics().updates])

    asking = threading.Thread(target=ask)
    with trainer._changed:
        asking.start()
        asking.join(0.1)
        assert answers == []
    asking.join(10)
    assert answers == [True, False, False, 0, 0]


def test_inline_at_degree_0_is_the_hosts_own_loop_call_for_call() -> None:
    own, ours = Recorded(4), Recorded(4)
    own_loop(own, updates=2, limit=20)
    result = run(
        20,
        collector=ours,
        learner=ours,
        buffer=ours,
        evaluator=ours,
        backend="inline",
        update_per_collect=2,
    )
    assert ours.calls == own.calls and len(own.calls) > 60
    assert result.policy is None and result.stats.evaluations_run == 5


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_round_acts_with_the_weights_of_the_one_before_at_degree_0(backend: Any) -> None:
    learner = Learner()
    how = {"backend": backend, "num_collectors": 2, "update_per_collect": 2}
    result = run(12, collector=Collector, learner=learner, **how)
    acted = [(batch[0][0], batch[0][1]) for batch in learner.batches]
    assert acted == [(rank, v) for v in (0, 4, 8) for _ in range(2) for rank in (0, 1)]
    assert result.policy is not None and result.policy.version == 12
    assert not threads()


def test_snapshots_never_change_and_asynchronous_evaluations_coalesce() -> None:
    class Keeping(Evaluator):
        loaded: list[tuple[dict[str, int], int]] = []

        def load_weights(self, state: dict[str, int], version: int) -> None:
            self.loaded.append((state, version))
            super().load_weights(state, version)

    learner = Learner(0.001)
    evaluator = Keeping(wait_s=0.004)
    result = run(
        40,
        collector=Collector(wait_s=0.001),
        learner=learner,
        evaluator=evaluator,
        off_policy_degree=3,
        enable_async_eval=True,
    )
    stats = result.stats
    versions = [batch[0][1] for batch in learner.batches]
    assert versions == sorted(versions) and stats.lag_max <= 3
    assert all(state["n"] == version for state, version in evaluator.loaded)
    assert all(result == version for version, result in result.evaluations)
    assert stats.evaluations_coalesced and stats.rows_dropped == 0
    assert stats.env_steps_trained == stats.env_steps_collected == 160


def test_nothing_trains_during_a_synchronous_evaluation() -> None:
    learner = Learner()

    class Looking(Evaluator):
        def eval(self) -> float:
            before = learner.state["n"]
            time.sleep(0.005)
            assert learner.state["n"] == before == self.version
            return 0.0

    result = run(20, learner=learner, evaluator=Looking(), off_policy_degree=3)
    assert [version for version, _ in result.evaluations] == [*range(20)]


def test_collect_may_be_a_coroutine_and_take_arguments() -> None:
    class Host(Collector):
        seen: list[tuple[int, int]] = []

        def collect_kwargs(self, train_iter: int, envstep: int) -> dict[str, int]:
            return {"train_iter": train_iter, "envstep": envstep}

        def count_env_steps(self, data: int) -> int:
            return data

        async def collect(self, train_iter: int, envstep: int) -> int:  # type: ignore[override]
            self.seen.append((train_iter, envstep))
            return 5

    host = Host()
    toy_trainer(collector=host, backend="inline").run(max_env_step=12)
    assert host.seen == [(0, 0), (1, 5), (2, 10)]


def test_best_evaluated_weights_are_saved_and_a_stop_ends_the_run() -> None:
    """Whatever is above the rest; a score that is no number is not."""

    class Host(Evaluator):
        scores, saved = [math.nan, 3.0, 2.0, 4.0], list[int]()

        def eval(self) -> Any:
            return len(self.scores) == 1, self.scores.pop(0)

        def save_evaluated(self, weights: Any) -> None:
            self.saved.append(weights.version)

    host = Host()
    result = run(100, evaluator=host)
    assert host.saved == [1, 3] and result.why == "the evaluator said stop"
    assert result.stats.updates == 3


def test_buffer_that_is_not_trainable_yet_grants_nothing() -> None:
    class Buffer(list[Any]):
        push = list.append

        def sample(self) -> Any:
            return self[-1]

        def is_trainable(self) -> bool:
            return len(self) >= 3

    buffer = Buffer()
    assert run(4, buffer=buffer, replay_ratio="1/2").stats.updates == 4 and len(buffer) == 4


@pytest.mark.parametrize("how", [("inline", 0), ("thread", 0), ("thread", 1)])
def test_weights_are_evaluated_once_while_nothing_is_trained(how: tuple[Any, int]) -> None:
    class Warming(list[Any]):
        push = list.append

        def sample(self) -> Any:
            return self[-1]

        def is_trainable(self) -> bool:
            return len(self) > 6

    backend, degree = how
    result = AsyncTrainer(
        collector=Collector(),
        learner=Learner(),
        evaluator=Evaluator(),
        buffer=Warming(),
        backend=backend,
        off_policy_degree=degree,
        replay_ratio="1/8",  # an update every other round
    ).run(max_train_iter=3)
    versions = [version for version, _ in result.evaluations]
    assert versions[0] == 0 and versions == sorted(set(versions))
    assert degree or versions == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"collector": Learner()}, "the collector needs a method collect(); 'Learner' has none"),
        ({"learner": Collector()}, "the learner needs a method train()"),
        ({"buffer": [1]}, "the buffer needs a method push()"),
        ({"evaluator": Collector()}, "the evaluator needs a method eval()"),
        ({"backend": "process"}, "backend 'process' makes the collector in a process of its own"),
        ({"num_collectors": 2}, "one object can't collect twice at a time"),
        ({"collector": Recorded(1), "off_policy_degree": 1}, "a method load_weights()"),
        ({"learner": Recorded(1), "off_policy_degree": -1}, "a method get_weights()"),
        ({"backend": "ray"}, "backend must be one of inline, thread, process; got 'ray'"),
        ({"off_policy_degree": -2}, "lets the run choose) must be a whole number, at least -1"),
        ({"data_queue_size": 0}, "data_queue_size must be a whole number, at least 1; got 0"),
        ({"replay_ratio": 0}, "replay_ratio must be above 0; got 0"),
        ({"replay_ratio": "x"}, "replay_ratio must be a number or a fraction; got 'x'"),
        ({"replay_ratio": 1, "update_per_collect": 1}, "say the same in two ways"),
        ({"weight_sync_interval": 3, "off_policy_degree": 1}, "Raise off_policy_degree to 2 at le"),
        ({"reanalyze": 0}, "reanalyze must be above 0; got 0"),
        ({"reanalyze": 0.5}, "neither the buffer nor the learner has such a method"),
        ({"off_policy_degree": "legacy-auto", "batch_size": 32}, "got None and 32. Give both"),
        ({"buffer_size": 10}, "are for off_policy_degree 'legacy-auto' alone"),
        ({"work_timeout_s": 0}, "work_timeout_s must be above 0"),
        ({"work_timeout_s": "60"}, "seconds, or None for no limit; got '60'"),
        ({"work_timeout_s": math.inf}, "seconds, or None for no limit; got inf"),
        ({"enable_async_eval": "no"}, "enable_async_eval must be True or False; got 'no'"),
        ({"should_eval": bool}, "should_eval is about evaluations, and there is no evaluator"),
        ({"on_evaluation": print}, "Give evaluator=..., or leave on_evaluation out."),
    ],
)
def test_bad_input_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        toy_trainer(**changes)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("share", "granted", "calls"),
    [
        ("1/3", 2, [0, 6, 12]),  # the update that comes next
        (2, 4, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
        (1.5, 2, [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]),
        (4, 2, [number // 2 for number in range(24)]),
    ],
)
def test_reanalysis_is_spread_evenly_over_epochs(
    share: Any, granted: int, calls: list[int]
) -> None:
    class Reanalyzing(Learner):
        done: list[int] = []

        def reanalyze_buffer(self) -> None:
            self.done.append(self.state["n"])

    learner = Reanalyzing()
    learner.done = []
    run(max(calls) + 1, learner=learner, update_per_collect=granted, reanalyze=share)
    assert learner.done == calls


@pytest.mark.parametrize(("buffer_size", "degree"), [(10_000, 31), (100, 1)])
def test_older_rule_of_the_degree_is_kept(buffer_size: int, degree: int) -> None:
    result = run(2, off_policy_degree="legacy-auto", buffer_size=buffer_size, batch_size=32)
    assert result.chosen_degree == degree


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_weights_are_exchanged_every_few_rounds_and_evaluated_fresh(backend: Any) -> None:
    class Counting(Learner):
        copies = 0

        def get_weights(self) -> dict[str, int]:
            self.copies += 1
            return super().get_weights()

    learner, collector = Counting(), Collector()
    result = run(
        20,
        collector=collector,
        learner=learner,
        evaluator=Evaluator(),
        backend=backend,
        off_policy_degree=5,
        weight_sync_interval=3,
        should_eval=lambda train_iter: train_iter == 10,
    )
    # At the beginning, every third round (3, 6, 9, 13, 16, 19), for the evaluation, at the end.
    assert learner.copies == 1 + 6 + 1 + 1 and result.evaluations == ((10, 10.0),)
    assert {batch[0][1] for batch in learner.batches} <= {0, 3, 6, 9, 10, 13, 16}
    assert result.stats.lag_max <= 5


def test_debug_log_has_a_line_for_each_round_and_evaluation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    run(2, backend="inline", evaluator=Evaluator(), debug_log=lines.append)
    assert [line.split(";")[0].split(", sent")[0] for line in lines] == [
        "evaluation of version 0 scored 0.0",
        "round 0: version 1",
        "evaluation of version 1 scored 1.0",
        "round 1: version 2",
    ]
    assert "degree 0, admitted 1, merged 1, trained 1, lag 0.00" in lines[1]
    run(1, backend="inline", debug_log=True)
    assert capsys.readouterr().err.startswith("AsyncTrainer: round 0: version 1, sent in ")


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_collections_may_say_what_they_grant(backend: Any) -> None:
    class Granting(Collector):
        def count_updates(self, data: list[tuple[int, int]]) -> int:
            return (self.calls - 1) % 3

    learner = Learner()
    result = run(7, collector=Granting, learner=learner, backend=backend)
    assert result.why == "7 updates (max_train_iter: 7)"  # 0 1 2 0 1 2 0 1
    assert [batch[0][1] for batch in learner.batches] == [0, 1, 1, 3, 4, 4, 6]
    assert result.stats.rounds_trained == 8 and result.stats.updates == 7


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_evaluations_are_told_of_when_they_begin_and_end(backend: Any) -> None:
    told: list[tuple[int, object]] = []
    run(
        2,
        collector=Collector,
        evaluator=Evaluator,
        backend=backend,
        on_evaluation=lambda version, result: told.append((version, result)),
    )
    assert told == [(0, None), (0, 0.0), (1, None), (1, 1.0)]


@pytest.mark.parametrize("backend", ["inline", "thread"])
def test_who_is_told_of_evaluations_may_wait_for_one_who_asks_the_trainer(backend: Any) -> None:
    told: list[tuple[int, int]] = []

    def attend(version: int, result: object) -> None:
        asks = threading.Thread(
            target=lambda: told.append((version, trainer.coordinator.statistics().updates))
        )
        asks.start()
        asks.join(20.0)
        assert not asks.is_alive()

    trainer = toy_trainer(
        collector=Collector, evaluator=Evaluator, backend=backend, on_evaluation=attend
    )
    trainer.run(max_train_iter=2)
    assert told == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert trainer.coordinator.evaluation == (False, None)


def test_run_needs_an_end_and_factories_need_to_make_what_is_needed() -> None:
    collector = Collector()
    with pytest.raises(ConfigError, match="max_env_step or max_train_iter"):
        toy_trainer(collector=collector).run()
    with pytest.raises(ConfigError, match="the evaluator that its factory made needs a method ev"):
        run(3, collector=collector, evaluator=lambda rank, seed: collector)
    assert collector.calls == 0


def test_factories_get_rank_and_a_seed_of_their_own() -> None:
    given: list[tuple[int, int]] = []

    def make(rank: int, seed: int) -> Collector:
        given.append((rank, seed))
        return Collector(rank)

    for seed in (0, 0, 1):
        run(1, collector=make, num_collectors=2, seed=seed)
    assert [rank for rank, _ in given] == [0, 1] * 3
    assert given[:2] == given[2:4] and len({seed for _, seed in given}) == 4


def test_error_of_a_collector_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError, match="the third one"):
        toy_trainer(collector=Raising(), backend="inline").run(max_env_step=99)
    with pytest.raises(NodeFailed) as failed:
        toy_trainer(collector=Raising()).run(max_env_step=99)
    text = str(failed.value)
    assert f"collector-0 (a thread of process {os.getpid()}) raised in collect()" in text
    assert "toy_hosts.py" in text and "ZeroDivisionError: the third one" in text
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    assert not threads()


@pytest.mark.parametrize("backend", ["inline", "thread", "process"])
def test_error_of_a_collector_is_shown_without_the_calls_that_led_to_it(backend: Any) -> None:
    with pytest.raises((ZeroDivisionError, NodeFailed)) as failed:
        toy_trainer(collector=Raising, backend=backend).run(max_env_step=99)
    shown = "".join(traceback.format_exception(failed.value))
    ours = [line for line in shown.splitlines() if "fast_core" in line and "File" in line]
    assert len(ours) == 1 and "in run" in ours[0], shown
    assert "in collect" in shown


def test_fault_of_fastloops_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coordinator, "start_training", lambda *_: None)
    with pytest.raises(AssertionError, match="somebody can work") as failed:
        toy_trainer(backend="inline").run(max_env_step=9)
    assert "in run_inline" in "".join(traceback.format_exception(failed.value))


def test_call_that_does_not_come_back_is_named() -> None:
    released = threading.Event()

    class Hanging(Collector):
        def collect(self) -> Any:
            return self.wait_for_ever() if self.calls == 2 else super().collect()

        def wait_for_ever(self) -> None:
            released.wait(60)

    trainer = toy_trainer(collector=Hanging(), work_timeout_s=0.2)
    with pytest.raises(NodeFailed) as failed:
        trainer.run(max_env_step=99)
    assert "did not come back from collect() within 0.2 s (work_timeout_s)" in str(failed.value)
    assert "wait_for_ever" in str(failed.value), "it says where"
    assert "Still running" in failed.value.__notes__[0]
    released.set()
    for each in threads():
        each.join(20)
    assert not threads()


def test_ctrl_c_ends_all_threads() -> None:
    class Interrupting(Learner):
        def train(self, batch: Any) -> dict[str, float]:
            if self.state["n"] == 3:
                _thread.interrupt_main()
            return super().train(batch)

    trainer = toy_trainer(collector=Collector(wait_s=0.01), learner=Interrupting())
    with pytest.raises(KeyboardInterrupt):
        trainer.run(max_env_step=10**9)
    assert not threads()


def test_collecting_overlaps_training_above_degree_0_alone() -> None:
    inside, most, lock = [0], [0], threading.Lock()

    def note(change: int) -> None:
        with lock:
            inside[0] += change
            most[0] = max(most[0], inside[0])

    class Noting(Collector):
        def collect(self) -> Any:
            note(1)
            data = super().collect()
            note(-1)
            return data

    class NotingToo(Learner):
        def train(self, batch: Any) -> dict[str, float]:
            note(1)
            told = super().train(batch)
            note(-1)
            return told

    for degree, together in ((0, 1), (1, 2)):
        most[0] = 0
        collector, learner = Noting(wait_s=0.01), NotingToo(0.01)
        run(10, collector=collector, learner=learner, off_policy_degree=degree)
        assert most[0] == together
