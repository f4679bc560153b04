"""What a policy remembers begins and ends with the episode, wherever the policy acts (ALG-14)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.process import harness
from tests.process.harness import BARE, Launched, Workplace, read_lines

pytestmark = pytest.mark.process

TICKETS = 30

COUNTING: dict[str, Any] = {
    "name": "counting",
    "environment": {"id": "fastloop/Counting-v0", "modules": ["counting"]},
    # neither 3, 5 nor 7 divides the rollout: episodes go on from one to the next
    "rollout": {"shards": 2, "envs_per_shard": 3, "steps": 8},
    "algorithm": {"name": "counting:CountingConfig"},
    "nodes": {"env": {"count": 2}},
    "evaluation": {"every_env_steps": 400, "episodes": 30, "envs": 4},
    "checkpoint": {"every_updates": 10},
    "metrics": {"tensorboard": False},
    "stop": {"env_steps": TICKETS * 2 * 3 * 8},
}

RECALL: dict[str, Any] = {
    "name": "recall",
    "environment": {
        "id": "fastloop/Recall-v0",
        "modules": ["fast_core.clients.games.memory_task"],
        "kwargs": {"delay": 3},
    },
    "rollout": {"shards": 4, "envs_per_shard": 2, "steps": 8},
    "algorithm": {
        "name": "ppo",
        "recurrent": "gru",
        "recurrent_size": 8,
        "hidden_sizes": [8],
        "minibatch_size": 16,
        "epochs": 2,
    },
    **BARE,
    "stop": {"env_steps": TICKETS * 4 * 2 * 8},
}


def evaluations(launched: Launched) -> list[dict[str, float]]:
    rows = read_lines(launched.run / "metrics.jsonl")
    return [row["values"] for row in rows if "eval/return_mean" in row["values"]]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "placement"), [("inline", "env"), ("process", "node")])
def test_policy_counts_the_steps_of_every_episode(
    workplace: Workplace, mode: str, placement: str
) -> None:
    launched = workplace.launch(
        f"mode={mode}", f"policy.placement={placement}", config=COUNTING
    ).done()
    found = evaluations(launched)
    assert found
    for values in found:
        assert values["eval/return_mean"] == values["eval/length_mean"]
    workplace.resume(launched, f"stop={{env_steps: {2 * TICKETS * 2 * 3 * 8}}}").done()


finished = partial(harness.finished, tickets=TICKETS)


@pytest.mark.slow
@pytest.mark.parametrize(("cell", "placement"), [("lstm", "env"), ("gru", "node")])
def test_recurrent_processes_equal_inline_bit_for_bit(
    workplace: Workplace, cell: str, placement: str
) -> None:
    """A policy node passes memories on: with one group it gets the same batches."""
    recurrent = f"algorithm.recurrent={cell}"
    reference = finished(workplace.launch(recurrent, "mode=inline", config=RECALL))
    given = (f"policy={{placement: {placement}, groups: 1}}", "nodes.env.count=3")
    launched = workplace.launch(recurrent, *given, "diagnostics.delay_ms=3", config=RECALL)
    assert finished(launched) == reference
