"""Nodes that die within the budget come back, and the run comes to its end."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import TOY, Launched, Workplace, eventually

pytestmark = pytest.mark.process

TICKET = 2 * 2 * 8
PATIENT: dict[str, Any] = {
    **TOY,
    "environment": {**TOY["environment"], "kwargs": {"step_s": 0.002, "length": 50}},
    "supervision": {"env_restarts": 1},
    "checkpoint": {"every_updates": 40, "at_end": True},
    "stop": {"env_steps": 120 * TICKET},
}


def lost(launched: Launched) -> list[str]:
    return [event["why"] for event in launched.events() if event["what"] == "node lost"]


def back(launched: Launched) -> list[str]:
    return [event["why"] for event in launched.events() if event["what"] == "node back"]


def kill(launched: Launched, node: str) -> None:
    os.kill(launched.node(node), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("degree", slow_but([0], [0, 2]))
def test_killed_env_node_is_survived(workplace: Workplace, degree: int) -> None:
    launched = workplace.launch(f"scheduler.off_policy_degree={degree}", config=PATIENT)
    launched.await_training()
    kill(launched, "env-1")
    assert launched.wait(60) == 0, launched.screen
    launched.assert_gone()
    (why,) = lost(launched)
    assert why.startswith("env-1 is gone: was killed by SIGKILL")
    assert "it is started anew now" in why
    assert back(launched) == ["env-1 is ready again"]
    end = [event["why"] for event in launched.events() if event["what"] == "end"]
    assert end == [f"finished: {120 * TICKET} env steps trained (stop.env_steps: {120 * TICKET})"]
    assert not (launched.run / "crash.txt").exists()


@pytest.mark.slow
def test_checkpoint_after_a_death_resumes_with_every_node(workplace: Workplace) -> None:
    launched = workplace.launch(config=PATIENT)
    launched.await_training()
    kill(launched, "env-0")
    eventually(lambda: lost(launched), "news of the death")
    assert launched.wait(60) == 0, launched.screen
    resumed = workplace.resume(launched, f"stop.env_steps={140 * TICKET}")
    assert resumed.wait(60) == 0, resumed.screen
    resumed.assert_gone()


@pytest.mark.slow
def test_death_of_a_node_in_a_resumed_run_is_survived(workplace: Workplace) -> None:
    """The shard begins anew: the checkpoint's state of it has been trained on since."""
    first = workplace.launch(f"stop.env_steps={20 * TICKET}", config=PATIENT)
    assert first.wait(60) == 0, first.screen
    resumed = workplace.resume(first, f"stop.env_steps={120 * TICKET}")
    resumed.await_training()
    eventually(lambda: any(e["what"] == "resume" for e in resumed.events()), "the resumption")
    kill(resumed, "env-1")
    assert resumed.wait(60) == 0, resumed.screen
    assert len(lost(resumed)) == 1


def test_death_beyond_the_budget_ends_the_run_with_its_cause(workplace: Workplace) -> None:
    config = {**PATIENT, "rollout": {**TOY["rollout"], "shards": 3}, "nodes": {"env": {"count": 3}}}
    launched = workplace.launch("stop={time_s: 60}", config=config)
    launched.await_training()
    kill(launched, "env-1")
    eventually(lambda: lost(launched), "news of the death")
    kill(launched, "env-2")
    assert launched.wait(30) == 1
    launched.assert_gone()
    report = (launched.run / "crash.txt").read_text()
    assert "env-2 was killed by SIGKILL" in report


def test_error_of_an_environment_is_not_a_death(workplace: Workplace) -> None:
    launched = workplace.toy("raise", "supervision.env_restarts=5")
    assert launched.wait(30) == 1
    assert not lost(launched)


@pytest.mark.slow
def test_the_only_env_node_comes_back(workplace: Workplace) -> None:
    launched = workplace.launch("nodes.env.count=1", "supervision.env_restarts=2", config=PATIENT)
    launched.await_training()
    for _ in range(2):
        seen = len(back(launched))
        kill(launched, "env-0")
        eventually(lambda: len(back(launched)) > seen, "its return")  # noqa: B023
    assert launched.wait(60) == 0, launched.screen
    launched.assert_gone()
