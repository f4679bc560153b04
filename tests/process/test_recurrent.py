"""What a policy remembers begins and ends with the episode, wherever the policy acts (ALG-14)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.process import harness
from tests.process.harness import BARE, Launched, Workplace, digests, read_lines

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
    """`test_policy_node` has the other cell with policies beside the environments."""
    given = (f"algorithm.recurrent={cell}", f"policy.placement={placement}")
    reference = finished(workplace.launch(*given, "mode=inline", config=RECALL))
    launched = workplace.launch(
        *given, "nodes.env.count=3", "diagnostics.delay_ms=3", config=RECALL
    )
    assert finished(launched) == reference


@pytest.mark.slow
def test_recurrent_run_resumed_equals_the_run_never_stopped(workplace: Workplace) -> None:
    # 13 tickets of 8 steps end within an episode of 5: what is remembered is in the checkpoint
    half = 13
    whole = finished(workplace.launch(config=RECALL))
    first = workplace.launch(
        "checkpoint.at_end=true", f"stop.env_steps={half * 4 * 2 * 8}", config=RECALL
    ).done()
    second = workplace.resume(first, f"stop={{env_steps: {TICKETS * 4 * 2 * 8}}}").done()
    resumed = digests(second.run)
    assert {ticket: resumed[ticket] for ticket in range(half, TICKETS)} == {
        ticket: whole[ticket] for ticket in range(half, TICKETS)
    }
