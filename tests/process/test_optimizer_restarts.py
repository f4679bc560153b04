"""Optimizers that die within the budget: the run comes back from its newest checkpoint."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from fast_core.run.checkpoint_files import complete_names
from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, digests, eventually, read_lines
from tests.process.test_resume import ROWS, TICKETS, config, has_run

pytestmark = pytest.mark.process

ONCE = "supervision.restarts.optimizer=1"
SLOWED = "diagnostics.delay_ms=2"  # so that it can't end before it is killed


def kill(launched: Launched, node: str, tickets: int, checkpoints: int = 1) -> None:
    """Kill a node once so many tickets are trained on and there are so many checkpoints."""
    eventually(lambda: has_run(launched) and len(digests(launched.run)) >= tickets, "training")
    names = launched.run / "checkpoints"
    eventually(lambda: len(complete_names(names)) >= checkpoints, "a checkpoint")
    os.kill(launched.node(node), signal.SIGKILL)


def comebacks(launched: Launched) -> list[dict[str, Any]]:
    return [event for event in launched.events() if event["what"] == "come back"]


@pytest.mark.parametrize("name", slow_but(["discrete"], ["discrete", "continuous, normalised"]))
def test_killed_optimizer_comes_back_and_nothing_else_has_changed(
    workplace: Workplace, name: str
) -> None:
    whole = workplace.launch(config=config(name))
    cut = workplace.launch(ONCE, SLOWED, config=config(name))
    kill(cut, "optimizer-0", TICKETS // 2)
    assert whole.wait() == 0, whole.screen
    assert cut.wait() == 0, cut.screen
    cut.assert_gone()

    assert digests(cut.run) == digests(whole.run)
    names = complete_names(whole.run / "checkpoints")
    assert complete_names(cut.run / "checkpoints") == names

    (event,) = comebacks(cut)
    before, after = event["facts"]["from_env_steps"], event["facts"]["to_env_steps"]
    assert after % (5 * ROWS) == 0 and after >= 5 * ROWS
    assert before - after < 6 * ROWS
    assert "optimizer-0 was killed by SIGKILL" in event["why"]
    assert event["why"] in cut.screen
    assert "came back" in cut.screen and "once after the death of an optimizer" in cut.screen
    assert not (cut.run / "crash.txt").exists()
    assert "optimizer-0 was killed" in (cut.run / "crash.previous.txt").read_text()
    steps = [row["env_steps"] for row in read_lines(cut.run / "metrics.jsonl")]
    assert steps == sorted(steps) and steps[-1] == TICKETS * ROWS
