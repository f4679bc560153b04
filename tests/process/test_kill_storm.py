"""Nodes are killed at random while a run trains: it loses what was open, and nothing else.

FASTLOOP_STORM_S=120 makes it a storm of two minutes, with a kill every two seconds (give pytest
``--timeout 300``).
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import pytest

from tests.process.harness import Launched, Workplace, read_lines
from tests.process.replay_runs import CONTINUOUS, RATIO, ROWS, WARM_UP
from tests.process.test_policy_node import ECHO

pytestmark = [pytest.mark.process, pytest.mark.slow]

LONG_S = float(os.environ.get("FASTLOOP_STORM_S", "0"))
LASTS_S, EVERY_S = (LONG_S, 2.0) if LONG_S else (3.5, 0.4)
BUDGET = 10_000
COMMON: dict[str, Any] = {
    "supervision": {
        "restarts": {
            **dict.fromkeys(("env", "policy", "evaluator", "replay"), BUDGET),
            "backoff_s": 0.1,
            "max_backoff_s": 0.5,
        }
    },
    "stop": {"time_s": LASTS_S + 1.5},
    "checkpoint": {"every_updates": 200, "at_end": True},
    "metrics": {"tensorboard": False, "interval_s": 0.1},
}


def storm(launched: Launched, nodes: list[str], seed: int) -> int:
    """Kill one of these nodes every now and then, whatever it is doing; returns how often."""
    chance, until_s, kills = random.Random(seed), time.monotonic() + LASTS_S, 0
    while time.monotonic() < until_s:
        time.sleep(EVERY_S * chance.uniform(0.5, 1.5))
        node = chance.choice(nodes)
        for process in launched.members():
            if process.command.startswith(f"fastloop: {node} of "):
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
    return kills


def check(launched: Launched, kills: int) -> dict[str, Any]:
    """The end of a run that was never the worse for it; returns the last facts on record."""
    launched.ends()
    events = launched.events()
    lost = [event for event in events if event["what"] == "node lost"]
    back = [event for event in events if event["what"] == "node back"]
    assert 0 < kills - 1 <= len(lost) <= kills
    assert len(lost) - 2 <= len(back) <= len(lost), "one that died in its start never was back"
    rows = read_lines(launched.run / "metrics.jsonl")
    steps = [row["env_steps"] for row in rows]
    thirds = [steps[len(steps) * k // 3 - 1] for k in (1, 2, 3)]
    assert 0 < thirds[0] < thirds[1] < thirds[2], f"training stood still: {steps}"
    facts: dict[str, Any] = next(e["facts"] for e in events if e["what"] == "summary")
    return facts


@pytest.mark.parametrize("degree", [0, 3] if LONG_S else [3])
def test_storm_over_rollouts_tears_no_row_and_trains_on_none_twice(
    workplace: Workplace, degree: int
) -> None:
    """The learner of `echo` checks every row that it gets."""
    config = ECHO | COMMON
    launched = workplace.launch(f"scheduler.off_policy_degree={degree}", config=config)
    launched.await_training()
    kills = storm(launched, ["env-0", "env-1", "env-2", "policy-0", "policy-1"], seed=degree)
    facts = check(launched, kills)
    assert facts["env_steps"] == facts["updates"] * 6 * 5 * 7


def test_storm_over_replay_keeps_the_ratio_exactly(workplace: Workplace) -> None:
    config = CONTINUOUS | COMMON
    config |= {"evaluation": {"every_env_steps": 20 * ROWS, "episodes": 2, "envs": 2}}
    launched = workplace.launch("scheduler.off_policy_degree=2", config=config)
    launched.await_training()
    facts = check(launched, storm(launched, ["env-0", "env-1", "evaluator-0", "replay-0"], seed=1))
    learned_from = facts["env_steps"] - WARM_UP * ROWS
    assert facts["updates"] == learned_from * round(10 * RATIO) // 10
