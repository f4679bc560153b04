"""What takes an optimizer's steps: one alone, and which one a plan asks for."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core.algorithm import ReplayBatch, UpdateReport
from fast_core.errors import ConfigError
from fast_core.nodes.learn.async_steps import Owner, Worker
from fast_core.nodes.learn.averaging import Averaging
from fast_core.nodes.learn.contract import queueing
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.stepping import Alone
from tests.nodes.replicas import Given, Replicas, batches, plan_for, rows


@pytest.fixture
def alone(tmp_path: Path):
    return Replicas(plan_for(tmp_path, "td3", 1))


def test_one_optimizer_takes_a_step_for_each_batch(alone: Replicas) -> None:
    for batch in batches("td3", 3):
        alone.give([batch])
    alone.drain()
    assert [report.updates for report in alone.reports[0]] == [1, 1, 1]
    assert [priority.shape for priority in alone.given[0].priorities] == [(12,)] * 3


def test_one_optimizer_gives_the_batch_back_only_when_the_step_is_over(alone: Replicas) -> None:
    """`Given` spoils what was finished, as the replay node does when it fills the slot again."""
    batch = batches("td3", 1)[0]
    alone.give([batch])
    alone.drain()
    other = alone.plan.blueprint.make_algorithm(alone.plan.environment, alone.plan.learner_setup)
    other.update(batch)
    assert digest(other.state_dict()) == digest(alone.learners[0].state_dict())


def test_batch_without_rows_is_a_skipped_step(alone: Replicas) -> None:
    before = digest(alone.learners[0].state_dict())
    alone.give([rows(batches("td3", 1)[0], slice(0))])
    alone.drain()
    (report,) = alone.reports[0]
    assert (report.updates, report.skipped) == (0, 1)
    assert alone.given[0].priorities == [None]
    assert digest(alone.learners[0].state_dict()) == before


def test_report_of_an_algorithm_is_checked() -> None:
    class Wrong:
        def update(self, batch):
            return None

    given = Given()
    given.waiting.append(batches("td3", 1)[0])
    with pytest.raises(ConfigError, match="must return"):
        Alone(Wrong(), given).advance()


@pytest.mark.parametrize(
    ("count", "update", "kinds"),
    [
        (1, "async", [Alone]),
        (2, "allreduce", [Averaging, Averaging]),
        (3, "async", [Owner, Worker, Worker]),
    ],
)
def test_plan_says_how_steps_are_taken(tmp_path: Path, count, update, kinds) -> None:
    made = Replicas(plan_for(tmp_path, "dqn", count, update))
    assert [type(stepper) for stepper in made.steppers] == kinds
    assert not any(stepper.pending for stepper in made.steppers)


def test_batch_that_is_not_finite_is_skipped_alone(alone: Replicas) -> None:
    batch = batches("td3", 1)[0]
    alone.give([replace(batch, reward=np.full(12, np.inf, np.float32))])
    alone.drain()
    assert (alone.reports[0][0].updates, alone.reports[0][0].skipped) == (0, 1)


class Late:
    """Begins steps as a device does, and says only later what came of them.

    Args:
        learner: Takes each when it is over.
        ahead: See `Queueing`.
        late: How often each is asked for in vain.
    """

    def __init__(self, learner: Any, ahead: int = 1, late: int = 2) -> None:
        self._learner, self.ahead, self._late = learner, ahead, late
        self._begun: deque[ReplayBatch] = deque()
        self._asked = 0
        self.most = 0

    def update(self, batch: ReplayBatch) -> UpdateReport:
        raise AssertionError("it is begun")

    def begin(self, batch: ReplayBatch) -> None:
        self._begun.append(batch)
        self.most = max(self.most, len(self._begun))

    def finished(self) -> UpdateReport | None:
        self._asked += 1
        if self._asked <= self._late:
            return None
        self._asked = 0
        return self._learner.update(self._begun.popleft())


@pytest.mark.parametrize("ahead", [1, 3])
def test_steps_that_are_begun_and_finished_apart_are_those_of_whole_updates(
    tmp_path: Path, alone: Replicas, ahead: int
) -> None:
    """Each batch is spoiled when it is given back, so none is before its step is over."""
    drawn = batches("td3", 6)
    drawn[2] = rows(drawn[2], slice(0))
    for batch in drawn:
        alone.give([batch])
    alone.drain()
    made = Replicas(plan_for(tmp_path / "late", "td3", 1))
    late, given = Late(made.learners[0], ahead), made.given[0]
    stepper = Alone(late, given)
    given.waiting.extend(copy.deepcopy(drawn))
    reports, open_before = [], []
    while len(reports) < len(drawn):
        before = len(given.priorities)
        report = stepper.advance()
        reports += [report] if report else []
        assert len(given.priorities) - before == (report is not None)
        assert stepper.pending == stepper.asks
        open_before.append(stepper.pending)
    assert not stepper.pending and any(open_before)
    assert late.most == ahead
    assert [r.metrics for r in reports] == [r.metrics for r in alone.reports[0]]
    for ours, theirs in zip(given.priorities, alone.given[0].priorities, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert digest(made.learners[0].state_dict()) == digest(alone.learners[0].state_dict())
    made.close()


def test_learner_that_reports_nothing_at_once_is_asked_again_and_its_fault_is_raised() -> None:
    class Faulty(Late):
        def finished(self):
            if super().finished() is None:
                return None
            raise RuntimeError("CUDA error: an illegal memory access")

    class Silent:
        def update(self, batch):
            return UpdateReport(1, 0)

    given = Given(deque(batches("td3", 1)))
    stepper = Alone(Faulty(Silent()), given)
    assert stepper.advance() is stepper.advance() is None
    with pytest.raises(RuntimeError, match="illegal memory access"):
        stepper.advance()
    assert given.priorities == [], "the slot is kept"


def test_update_that_overrides_what_is_begun_is_called() -> None:
    class Own(Late):
        def update(self, batch):
            return UpdateReport(0, 1)

    class Half:
        def finished(self):
            return None

    assert queueing(Late(None)) is not None
    assert queueing(Own(None)) is None
    given = Given(deque(batches("td3", 1)))
    report = Alone(Own(None), given).advance()
    assert report is not None and report.skipped == 1
    with pytest.raises(ConfigError, match="lacks begin, ahead"):
        queueing(Half())
