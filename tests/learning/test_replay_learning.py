"""Algorithms that learn from replay do, in a bounded number of steps, without any process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fast_core.algorithm import LearnerSetup
from fast_core.algos.replay.dqn_config import DQNConfig
from tests.algos.simple_replay import train
from tests.learning.training import evaluations
from tests.learning.training import train as run_to_the_end

pytestmark = [pytest.mark.learning, pytest.mark.slow, pytest.mark.timeout(600)]

SMALL = {"hidden_sizes": (64, 64), "batch_size": 64, "learning_rate": 1e-3}


def best(config: Any, name: str, goal: float, steps: int, seed: int) -> float:
    scores = train(
        config,
        name,
        steps=steps,
        warmup=1000,
        seed=seed,
        until=lambda returns: returns[-1] >= goal,
        setup=LearnerSetup(seed, 1, 1, 1),
    )
    return max(scores)


def test_cartpole_is_balanced_by_plain_dqn() -> None:
    """Seeds 0 to 3 took 2,000 to 17,000 steps, for ten episodes from fixed starts."""
    config = DQNConfig(
        **SMALL,
        activation="tanh",
        n_step=5,
        epsilon_steps=5000,
        target_rate=0.01,
        huber_threshold=10.0,
        double=False,
    )
    assert best(config, "CartPole-v1", 475.0, 30_000, seed=0) >= 475.0


@pytest.mark.process
def test_moves_are_learned_from_stacked_frames_of_the_replay(tmp_path: Path) -> None:
    """By everything that `dqn_drift` leaves out, at once; it takes 4,000 of its 40,000 steps."""
    placed = ("policy.placement=node", "policy.precision=bf16", "nodes.optimizer.precision=bf16")
    drawn = ("replay.prioritized=true", "algorithm.n_step=2", "algorithm.dueling=true")
    optimizers = ("nodes.optimizer.count=2", "nodes.optimizer.threads=1")
    run = run_to_the_end(tmp_path, "dqn_drift.yaml", *placed, *drawn, *optimizers)
    assert evaluations(run)[-1][1] >= 0.9
