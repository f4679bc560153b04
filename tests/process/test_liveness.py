"""Whether a node lives, and who hangs where, told truly of real processes."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import TOY, Launched, Workplace

pytestmark = pytest.mark.process

HANGING: dict[str, Any] = {
    **TOY,
    "name": "hanging",
    "environment": {"id": "CartPole-v1"},
    "algorithm": {**TOY["algorithm"], "name": "hanging:HangingConfig"},
}


def last_line(launched: Launched) -> str:
    return launched.screen.strip().splitlines()[-1]


def hangs(where: str, **settings: object) -> list[str]:
    values = {"where": where, **settings}
    return [f"algorithm.{name}={value}" for name, value in values.items()]


def test_learner_that_holds_the_interpreter_lock_is_not_taken_for_stopped(
    workplace: Workplace,
) -> None:
    """As a call into C that nobody wrote for Python: no thread of Python's runs meanwhile."""
    workplace.launch(
        *hangs("update", seconds=3),
        "supervision.heartbeat_timeout_s=1.5",
        "stop={updates: 12}",
        config=HANGING,
    ).done()


@pytest.mark.slow
def test_node_stopped_inside_a_step_is_stopped_and_its_environment_not_blamed(
    workplace: Workplace,
) -> None:
    launched = workplace.toy(
        "", "supervision.heartbeat_timeout_s=3", "environment.step_timeout_s=2", step_s=0.01
    )
    launched.await_training()
    env = launched.node("env-0")
    os.kill(env, signal.SIGSTOP)
    launched.ends(1)
    assert "no sign of life for 3 s (supervision.heartbeat_timeout_s)" in last_line(launched)
    assert "First cause: node 'env-0'" in launched.screen
    assert "stopped by a signal" in launched.screen
    assert "(most recent call first)" in launched.screen, "it woke up for a moment to say where"


@pytest.mark.parametrize("at", slow_but([400], [400, 3]), ids=["stepped", "tried out"])
def test_environment_that_executes_another_program_is_told_as_that(
    workplace: Workplace, at: int
) -> None:
    """What was the node is gone, and its process is not: `sleep`, which gives no sign of life."""
    launched = workplace.toy("exec", at=at, length=1000).ends(1)
    assert "executes another program in its place: 'sleep 3600'" in last_line(launched)
    assert "let it start the program with subprocess instead" in last_line(launched)


POLICY_NODE = "policy.placement=node"
STAGE = "nodes.extra=[{{node: 'hanging:HangingStage', settings: {{{}}}}}]"
HANGS = {
    "update, lock held": ("optimizer-0", "learning", hangs("update"), "in update"),
    "state_dict": ("optimizer-0", "saving", hangs("state_dict"), "in state_dict"),
    "policy beside environments": ("env-", "acting", hangs("act", at=30), "in act"),
    "policy node": ("policy-0", "acting", [*hangs("act", at=30), POLICY_NODE], "in act"),
    "stage": ("hangingstage", "transforming", [STAGE.format("where: transform")], "in transform"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HANGS)
def test_whoever_hangs_is_named_with_where_it_is(workplace: Workplace, name: str) -> None:
    """Though work may take far longer the first time: that is what every hang was given."""
    node, state, overrides, place = HANGS[name]
    launched = workplace.launch(
        *overrides, "supervision.repeat_timeout_s=1", "checkpoint.every_updates=1", config=HANGING
    ).ends(1)
    assert f"First cause: node '{node}" in launched.screen
    assert f"{state} for " in launched.screen
    # 1 s, or longer where a busy machine took its time over what came before
    assert re.search(r"within [\d.]+ s \(supervision\.repeat_timeout_s", last_line(launched))
    assert place in launched.screen


@pytest.mark.slow
def test_stage_that_takes_its_time_is_waited_for_inline_too(workplace: Workplace) -> None:
    """As one that asks somebody elsewhere: nobody has anything to do meanwhile."""
    workplace.launch(
        STAGE.format("ponders_s: 0.3"),
        "rollout.shards=1",
        "nodes.env.count=1",
        "stop={updates: 12}",
        "mode=inline",
        config=HANGING,
    ).done()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["process", "inline"])
def test_stage_that_forgets_a_rollout_is_named(workplace: Workplace, mode: str) -> None:
    """Every node is well, and only waits."""
    launched = workplace.launch(
        STAGE.format("forgets: 5"), "supervision.repeat_timeout_s=1", f"mode={mode}", config=HANGING
    ).ends(1)
    assert "hangingstage has not sent Transformed of rollout 3 of shard 0" in last_line(launched)
    if mode == "process":
        assert "First cause: node 'hangingstage'" in launched.screen
        assert "launcher warning: ticket 2 does not settle" in launched.screen
