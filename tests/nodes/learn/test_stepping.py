"""What takes an optimizer's steps: one alone, and which one a plan asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fast_core.errors import ConfigError
from fast_core.nodes.learn.async_steps import Owner, Worker
from fast_core.nodes.learn.averaging import Averaging
from fast_core.nodes.learn.digest import digest
from fast_core.nodes.learn.stepping import Alone
from tests.nodes.replicas import Given, Replicas, batches, plan_for, rows


@pytest.fixture
def alone(tmp_path: Path):
    made = Replicas(plan_for(tmp_path, "td3", 1))
    yield made
    made.close()


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
    made.close()


def test_batch_that_is_not_finite_is_skipped_alone(alone: Replicas) -> None:
    batch = batches("td3", 1)[0]
    alone.give([replace(batch, reward=np.full(12, np.inf, np.float32))])
    alone.drain()
    assert (alone.reports[0][0].updates, alone.reports[0][0].skipped) == (0, 1)
