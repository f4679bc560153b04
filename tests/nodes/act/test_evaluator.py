"""The evaluator and the metrics node, driven by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from fast_core.errors import SegmentError
from fast_core.messages import Evaluate, Record, Stop
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.metrics import MetricsNode
from fast_core.nodes.node import NodeState
from fast_core.policy.file import best_policy_path, read_origin
from tests.nodes.stage import Stage


@pytest.fixture
def node(stage: Stage) -> EvaluatorNode:
    return stage.start(EvaluatorNode, "evaluator-0")


def test_exactly_the_episodes_asked_for_are_played(stage: Stage, node: EvaluatorNode) -> None:
    stage.snapshot(1)
    event = stage.evaluate(node, 1)
    assert (event.version, event.env_steps) == (1, 10)
    assert len(event.returns) == 3
    assert event.returns == tuple(map(float, event.lengths))
    assert max(event.lengths) <= 12, "always the same action: CartPole falls within 12 steps"
    stage.snapshot(2)
    assert len(stage.evaluate(node, 2, episodes=5).returns) == 5


def test_other_version_than_the_one_asked_for_is_a_fault(stage: Stage, node: EvaluatorNode) -> None:
    stage.snapshot(1)
    with pytest.raises(SegmentError, match="told to evaluate version 7, the slot holds 1"):
        stage.evaluate(node, 7)


def test_slow_disk_under_the_best_policy_is_blamed_on_no_environment(
    stage: Stage, node: EvaluatorNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, flush = set[int](), os.fsync

    def slow(descriptor: int) -> None:
        states.add(node.context.stats.snapshot().state)
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    stage.snapshot(1)
    stage.evaluate(node, 1)
    assert states == {NodeState.WRITING}


def test_successor_plays_again_what_the_dead_one_played(stage: Stage, node: EvaluatorNode) -> None:
    stage.snapshot(1, value=0.25)
    first = stage.evaluate(node, 1)  # let it have died after the release, before it told
    assert stage.evaluate(node, 1) == first
    stage.snapshot(2)
    assert stage.evaluate(node, 2).version == 2


def test_slot_that_was_never_filled_can_not_be_held_again(
    stage: Stage, node: EvaluatorNode
) -> None:
    with pytest.raises(SegmentError, match="holds no snapshot"):
        stage.evaluate(node, 1)


def test_stop_ends_an_evaluation_without_a_report(stage: Stage, node: EvaluatorNode) -> None:
    stage.snapshot(1)
    stage.hub.send("evaluator-0", Evaluate(1, 1, 10, 3))
    stage.hub.send("evaluator-0", Stop("interrupted"))
    for _ in range(5):
        node.step()
    assert stage.events() == []


def test_evaluation_with_an_unknown_outcome_is_never_the_best(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a reward is negative, an episode that breaks looks better than one that ends."""
    monkeypatch.setattr(CartPoleEnv, "step", breaks_at_once)
    node = stage.start(EvaluatorNode, "evaluator-0")
    stage.snapshot(1)
    event = stage.evaluate(node, 1)
    assert "3 of 3 evaluation episodes met NaN or infinity" in caplog.text
    assert event.score is None and np.isnan(event.returns).all()
    assert not best_policy_path(stage.plan.run_directory).exists()


def breaks_at_once(self: CartPoleEnv, action: object) -> tuple[object, ...]:
    return np.full(4, np.nan, np.float32), -1.0, False, False, {}


def test_best_policy_that_finds_no_room_is_written_later(
    stage: Stage, node: EvaluatorNode, caplog: pytest.LogCaptureFixture
) -> None:
    path = best_policy_path(stage.plan.run_directory)
    aside = path.parent.rename(path.parent.with_name("aside"))
    for version in (1, 2):
        stage.snapshot(version)
        stage.evaluate(node, version)
    assert caplog.text.count("can't write the best policy") == 1
    aside.rename(path.parent)
    node.close()
    assert read_origin(path).version == 2


def test_metrics_are_written_also_those_that_came_before_the_stop(stage: Stage) -> None:
    node = MetricsNode(stage.context("metrics-0"))
    for number in (1, 2):
        stage.hub.send("metrics-0", Record(number, number, 0.5, {"loss": 0.25 * number}))
    stage.hub.send("metrics-0", Stop("finished"))
    node.run()
    node.close()
    rows = [
        json.loads(line)
        for line in (Path(stage.plan.run_directory) / "metrics.jsonl").read_text().splitlines()
    ]
    assert [(row["env_steps"], row["values"]["train/loss"]) for row in rows] == [
        (1, 0.25),
        (2, 0.5),
    ]
