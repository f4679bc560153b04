"""Replay nodes that die within the budget: their successor goes on with what they held."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, digests, eventually, read_process
from tests.process.replay_runs import (
    PICTURES,
    ROWS,
    TASKS,
    TICKETS,
    WARM_UP,
    finished,
    granted,
    reached,
)
from tests.process.test_resume import has_run

pytestmark = pytest.mark.process


def restarting(config: dict[str, Any], deaths: int) -> dict[str, Any]:
    restarts = {"replay": deaths, "backoff_s": 0.001, "max_backoff_s": 0.001}
    return config | {"supervision": {"restarts": restarts}}


def back(launched: Launched) -> int:
    """How often its replay node came back."""
    return sum(event["what"] == "node back" for event in launched.events())


def kill(launched: Launched) -> None:
    """Kill its replay node and wait until there is another one."""
    before = back(launched)
    os.kill(launched.node("replay-0"), signal.SIGKILL)
    eventually(lambda: back(launched) > before, f"its successor\n{launched.screen}")


@pytest.mark.parametrize("name", slow_but(["continuous"], ["continuous", "two optimizers"]))
def test_killed_replay_node_comes_back_with_every_bit(workplace: Workplace, name: str) -> None:
    """RB-14: rows, priorities, what was drawn and not learnt from, and the ratio, at degree 0."""
    whole = finished(workplace.launch(config=TASKS[name]))
    cut = workplace.launch("diagnostics.delay_ms=8", config=restarting(TASKS[name], 99))
    eventually(lambda: has_run(cut) and len(digests(cut.run)) > WARM_UP, f"learning\n{cut.screen}")
    kills = 0
    while len(digests(cut.run)) < TICKETS // 2:  # the run must not end before its last kill
        kill(cut)
        kills += 1
        time.sleep(0.01 * (kills % 7))
    assert finished(cut) == whole
    assert kills
    cut.assert_gone()


@pytest.mark.slow
def test_replay_node_of_a_resumed_run_comes_back_with_what_the_checkpoint_held(
    workplace: Workplace,
) -> None:
    """Answers of the part before are applied when they are due, by whom it may be."""
    whole = finished(workplace.launch(config=TASKS["continuous"]))
    half, limit = TICKETS // 2, TICKETS * ROWS
    part = (f"stop.env_steps={half * ROWS}", f"horizon_env_steps={limit}")
    first = workplace.launch(*part, config=restarting(TASKS["continuous"], 99)).done()
    again = workplace.resume(first, f"stop.env_steps={limit}", "diagnostics.delay_ms=5")
    eventually(lambda: any(e["what"] == "resume" for e in again.events()), "the resumption")
    for _ in range(3):
        kill(again)
    assert finished(again) == whole


@pytest.mark.slow
def test_storm_with_checkpoints_and_rounds_ahead_leaves_ratio_and_checkpoints_whole(
    workplace: Workplace,
) -> None:
    """Killed while it draws, while it writes a checkpoint, and while it comes back."""
    config = restarting(PICTURES, 999) | {"checkpoint": {"every_updates": 30, "keep": 3}}
    config |= {"evaluation": {"every_env_steps": None}, "diagnostics": {"delay_ms": 2}}
    storm = workplace.launch("scheduler.off_policy_degree=2", config=config)
    storm.await_training()
    for number in range(25):
        if not read_process(storm.pid):
            break
        with contextlib.suppress(ProcessLookupError, AssertionError):
            os.kill(storm.node("replay-0"), signal.SIGKILL)
        time.sleep(0.02 * (number % 13))
    storm.ends()
    assert back(storm)
    env_steps = TICKETS * ROWS
    assert reached(storm) == (env_steps, granted(env_steps))
    workplace.resume(storm, f"stop.env_steps={(TICKETS + 5) * ROWS}").done()
