"""Algorithms that learn from replay do, in a bounded number of steps, without any process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from gymnasium.wrappers import FrameStackObservation

import fast_core.envs.drift_task  # noqa: F401  (registers the task)
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


@pytest.fixture
def one_torch_thread() -> Iterator[None]:
    """Networks of these sizes only wait for threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def moving_pictures(name: str) -> Any:
    """Pictures in pairs: what has moved is seen by both together only."""
    return FrameStackObservation(gymnasium.make(name), 2)


@pytest.mark.usefixtures("one_torch_thread")
def test_moves_are_learned_from_pixels_by_dueling_dqn() -> None:
    """A policy that sees single pictures gets 1/3; seeds 0 to 2 took 4,000 to 6,000 steps."""
    config = DQNConfig(
        batch_size=64,
        learning_rate=1e-3,
        hidden_sizes=(64,),
        gamma=0.0,
        epsilon_steps=4000,
        epsilon_final=0.1,
        dueling=True,
    )
    scores = train(
        config,
        "fastloop/Drift-v0",
        steps=12_000,
        warmup=500,
        every=1000,
        update_every=8,
        until=lambda returns: returns[-1] >= 0.9,
        setup=LearnerSetup(0, 1, 1, 1),
        make=moving_pictures,
    )
    assert max(scores) >= 0.9


@pytest.mark.process
@pytest.mark.parametrize(
    "overrides",
    [
        (
            "policy.placement=node",
            "policy.precision=bf16",
            "nodes.optimizer.precision=bf16",
            "nodes.optimizer.threads=1",
        ),
        ("replay.prioritized=true", "algorithm.n_step=2", "nodes.optimizer.count=2"),
    ],
    ids=["bf16 in a policy node", "prioritized, two optimizers"],
)
def test_moves_are_learned_from_stacked_frames_of_the_replay(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    run = run_to_the_end(tmp_path, "dqn_drift.yaml", *overrides)
    assert evaluations(run)[-1][1] >= 0.9
