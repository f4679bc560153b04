"""What only stacked frames can tell is learned from pixels, and isn't without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.learning.training import evaluations, train

pytestmark = [
    pytest.mark.learning,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

BUDGET = "stop.env_steps=30_000"


def test_moves_are_learned_from_stacked_frames_in_bf16_with_a_policy_node(tmp_path: Path) -> None:
    computed = ("nodes.optimizer.precision=bf16", "policy.precision=bf16")
    run = train(tmp_path, "ppo_drift.yaml", BUDGET, "policy.placement=node", *computed)
    assert evaluations(run)[-1][1] >= 0.95


def test_moves_stay_a_guess_with_single_frames(tmp_path: Path) -> None:
    run = train(tmp_path, "ppo_drift.yaml", BUDGET, "environment.frame_stack=1")
    returns = [value for _, value in evaluations(run)]
    assert len(returns) >= 4
    assert max(returns) <= 0.5
