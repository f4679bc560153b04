"""Replay nodes that die within the budget: their successor goes on with what they held."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process.harness import Launched, Workplace, digests, eventually
from tests.process.replay_runs import TASKS, TICKETS, WARM_UP, finished
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


@pytest.mark.parametrize(
    "name", slow_but(["continuous"], ["continuous", "discrete", "two optimizers"])
)
def test_killed_replay_node_comes_back_with_every_bit(workplace: Workplace, name: str) -> None:
    """RB-14: rows, priorities, what was drawn and not learnt from, and the ratio, at degree 0."""
    whole = finished(workplace.launch(config=TASKS[name]))
    cut = workplace.launch("diagnostics.delay_ms=1", config=restarting(TASKS[name], 99))
    eventually(lambda: has_run(cut) and len(digests(cut.run)) > WARM_UP, f"learning\n{cut.screen}")
    kills = 0
    while len(digests(cut.run)) < TICKETS - 10:
        kill(cut)
        kills += 1
        time.sleep(0.01 * (kills % 7))
    assert finished(cut) == whole
    assert kills >= 3
    cut.assert_gone()
