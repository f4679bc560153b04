"""A node that hangs in what it has done before is not given the patience of a first time.

Whether or not the launcher looked in between: the node itself counts what it came back from.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fast_core.launcher.failures.stall import StallDetector
from fast_core.messages import Failed, Transform
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.nodes.node import NodeState
from tests.nodes import test_rollout_stage as stages
from tests.nodes.act.test_policy import Pair, config
from tests.nodes.counting import CountingConfig, CountingPolicy
from tests.nodes.learn.test_optimizer import Pair as Learner
from tests.nodes.learn.test_replay_optimizer import Learning
from tests.nodes.replay_stage import ReplayStage, replay_config
from tests.nodes.stage import Stage, drain, make_config, ref


def verdict(stage: Stage, node: str) -> Failed:
    """What a launcher says that looks for the first time, and sees nothing move any more."""
    detector, now_s = StallDetector(stage.plan, stage.memory), time.monotonic()
    for second in range(1, 1000):
        if failed := detector.check(now_s + second, only=node):
            return failed
    raise AssertionError("nobody was found hanging")


class Calls:
    """Judges in the first calls of a function as if each never returned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, node: str) -> None:
        self.stage: Stage | None = None
        self.said: list[Failed] = []
        call = getattr(owner, name)

        def judged(*args: Any, **named: Any) -> Any:
            if self.stage is not None and len(self.said) < 2:
                self.said.append(verdict(self.stage, node))
            return call(*args, **named)

        monkeypatch.setattr(owner, name, judged)


Patched = Callable[[Any, str, str], Calls]


@pytest.fixture
def patched(monkeypatch: pytest.MonkeyPatch) -> Patched:
    return lambda *of: Calls(monkeypatch, *of)


def acting(folder: Path, patched: Patched, node: str, **where: Any) -> Calls:
    calls, pair = patched(CountingPolicy, "act", node), Pair(folder, config(**where))
    calls.stage = pair.stage
    pair.order()
    pair.run()
    return calls


def policy_node(folder: Path, patched: Patched) -> Calls:
    """Which has a pass for each of four groups in its first turn."""
    return acting(folder, patched, "policy-0")


def policy_in_env_node(folder: Path, patched: Patched) -> Calls:
    return acting(folder, patched, "env-0", placement="env", groups=1)


def evaluator(folder: Path, patched: Patched) -> Calls:
    made = Stage(folder, make_config(algorithm=CountingConfig()))
    node = made.start(EvaluatorNode, "evaluator-0")
    calls = patched(CountingPolicy, "act", "evaluator-0")
    calls.stage = made
    made.snapshot(1)
    made.evaluate(node, 1)
    return calls


def learner_from_replay(folder: Path, patched: Patched) -> Calls:
    """Whose batches come after its ticket."""
    learning = Learning.make(folder)
    calls = patched(learning.node.algorithm, "update", "optimizer-0")
    calls.stage = learning.stage
    learning.grant(0, 3)
    learning.node.step()
    for _ in range(2):
        learning.fill()
        learning.node.step()
    return calls


def learner_from_rollouts(folder: Path, patched: Patched) -> Calls:
    made = Stage(folder)
    pair = Learner.on(made)
    calls = patched(pair.optimizer.algorithm, "update", "optimizer-0")
    calls.stage = made
    for ticket in (0, 1):
        pair.round(ticket)
    return calls


def replay(folder: Path, patched: Patched) -> Calls:
    """Which draws for each of two optimizers in its first turn."""
    made = ReplayStage.make(folder, replay_config(optimizers=2, update="async"), None)
    calls = patched(made.node.replay, "draw", "replay-0")
    calls.stage = made.stage
    made.collect()
    made.grant(0, 2)
    made.drain()
    return calls


def stage(folder: Path, patched: Patched) -> Calls:
    made = stages.make_stage(folder)
    node, calls = stages.make_node(made), patched(stages.Adder, "transform", "adder")
    calls.stage = made
    for rollout_id in (1, 2):
        slot = made.memory.rollouts(1).slot(0)
        slot.open(rollout_id)
        slot.commit(rollout_id, 1)
        made.hub.send("adder", Transform(0, ref(1, rollout_id)))
        drain(node)
    return calls


def message(folder: Path, patched: Patched) -> Calls:
    """Of a user's, which is handled in no state of its own."""
    made = stages.make_stage(folder)
    node, calls = stages.make_node(made), patched(stages.Adder, "handle", "adder")
    calls.stage = made
    for _ in range(2):
        made.hub.send("adder", stages.Shift("adder", 1.0))
    drain(node)
    return calls


HANGS: dict[str, tuple[Callable[[Path, Patched], Calls], str]] = {
    "policy node": (policy_node, "acting"),
    "policy beside environments": (policy_in_env_node, "acting"),
    "evaluator": (evaluator, "acting"),
    "learner from replay": (learner_from_replay, "learning"),
    "learner from rollouts": (learner_from_rollouts, "learning"),
    "replay": (replay, "drawing"),
    "stage": (stage, "transforming"),
    "message": (message, "handling"),
}


@pytest.mark.parametrize("name", HANGS)
def test_second_work_of_a_kind_is_a_repetition_and_the_first_is_none(
    tmp_path: Path, patched: Patched, name: str
) -> None:
    make, state = HANGS[name]
    first, second = make(tmp_path, patched).said
    assert first.doing.startswith(f"{state} for ")
    assert "within 600 s (supervision.work_timeout_s)" in first.error
    assert second.doing.startswith(f"{state} for ")
    assert "within 120 s (supervision.repeat_timeout_s)" in second.error


def test_next_process_of_a_node_has_done_nothing_yet(tmp_path: Path) -> None:
    made = stages.make_stage(tmp_path)
    works = made.memory.works("adder")
    works[NodeState.TRANSFORMING] = 3  # of the one before
    stages.make_node(made)
    assert not any(works)
