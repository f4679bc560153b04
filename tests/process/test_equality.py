"""At degree 0 a run is a function of its configuration, not of processes or their timing."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from tests.forms import slow_but
from tests.process import harness
from tests.process.harness import BARE, Workplace, read_lines

pytestmark = pytest.mark.process

TICKETS = 52
SHARDS, ENVS, STEPS = 4, 2, 8
EPOCHS, MINIBATCH = 2, 32


def task(name: str, *, normalised: bool = False) -> dict[str, Any]:
    return {
        "name": "equal",
        "environment": {"id": name},
        "rollout": {"shards": SHARDS, "envs_per_shard": ENVS, "steps": STEPS},
        "algorithm": {
            "name": "ppo",
            "hidden_sizes": [8],
            "minibatch_size": MINIBATCH,
            "epochs": EPOCHS,
            "normalize_observations": normalised,
            "normalize_rewards": normalised,
        },
        **BARE,
        "stop": {"env_steps": TICKETS * SHARDS * ENVS * STEPS},
    }


TASKS = {
    "discrete": task("CartPole-v1"),
    "discrete, normalised": task("CartPole-v1", normalised=True),
    "continuous, normalised": task("Pendulum-v1", normalised=True),
}


finished = partial(harness.finished, tickets=TICKETS)


CASES = (("discrete, normalised", (1, 4)), ("discrete", (4,)), ("continuous, normalised", (2,)))


TORCH = (
    ("algorithm.gradient=autograd", "policy.backend=torch"),
    ("algorithm.name=examples.a2c:A2CConfig",),
)


@pytest.mark.parametrize(("name", "counts"), slow_but(CASES[:1], CASES))
def test_processes_equal_inline_bit_for_bit(
    workplace: Workplace, name: str, counts: tuple[int, ...]
) -> None:
    """What is computed has nothing to do with how many share the shards: once for all counts."""
    config = TASKS[name]
    reference = finished(workplace.launch("mode=inline", config=config, fresh=True))
    for count in counts:
        launched = workplace.launch(
            f"nodes.env.count={count}", "diagnostics.delay_ms=3", config=config
        )
        assert finished(launched) == reference, f"{count} env nodes"


@pytest.mark.slow
@pytest.mark.parametrize("given", TORCH, ids=["ppo", "own loss"])
def test_torch_learner_is_equal_too(workplace: Workplace, given: tuple[str, ...]) -> None:
    config = TASKS["continuous, normalised"]
    reference = finished(workplace.launch("mode=inline", *given, config=config, fresh=True))
    launched = workplace.launch("nodes.env.count=2", *given, config=config)
    assert finished(launched) == reference


@pytest.mark.slow
def test_inline_repeats_itself_and_seeds_differ(workplace: Workplace) -> None:
    config = TASKS["discrete"]
    first = finished(workplace.launch("mode=inline", config=config))
    again = finished(workplace.launch("mode=inline", config=config))
    other = finished(workplace.launch("mode=inline", "seed=1", config=config))
    assert again == first
    assert set(other.values()).isdisjoint(first.values())


def test_asynchronous_run_trains_to_its_end(workplace: Workplace) -> None:
    launched = workplace.launch(
        "scheduler.off_policy_degree=2", "diagnostics.delay_ms=3", config=TASKS["discrete"]
    )
    finished(launched)
    rows = (launched.run / "metrics.jsonl").read_text("utf-8").splitlines()
    figures = json.loads(rows[-1])["values"]
    round_alone = EPOCHS * SHARDS * ENVS * STEPS // MINIBATCH - 1
    assert round_alone < figures["scheduler/lag_max"] <= 3 * (round_alone + 1) - 1


def test_appo_weights_older_rows_and_leaves_out_those_beyond_its_limit(
    workplace: Workplace,
) -> None:
    launched = workplace.launch(
        "scheduler.off_policy_degree=4",
        "algorithm.name=appo",
        "algorithm.learning_rate=1e-2",
        "algorithm.epochs=16",  # learning takes longer than collecting
        "algorithm.max_lag=32",  # the updates of one ticket
        "metrics.interval_s=0.01",
        config=TASKS["discrete"],
    ).done()
    rows = [row["values"] for row in read_lines(launched.run / "metrics.jsonl")]
    seen = [row for row in rows if "train/ess" in row]
    assert all(0 <= row["train/ess"] <= 1 for row in seen)  # 0 where a whole ticket is too old
    assert min(row["train/ess"] for row in seen) < 0.999, "the policy moves on meanwhile"
    assert 0 < seen[-1]["train/rows_too_old"] < TICKETS * SHARDS * ENVS * STEPS
