"""What only stacked frames can tell is learned from pixels."""

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


def test_moves_are_learned_from_what_a_policy_node_does_in_bf16(tmp_path: Path) -> None:
    """A learner in bf16 takes four times as long here; `test_replay_learning` has one."""
    acted = ("policy.placement=node", "policy.precision=bf16")
    run = train(tmp_path, "ppo_drift.yaml", "stop.env_steps=30_000", *acted)
    assert evaluations(run)[-1][1] >= 0.95
