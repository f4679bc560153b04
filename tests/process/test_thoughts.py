"""Whoever asks what the policy thinks changes nothing of a run, and is told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.process.harness import Launched, Workplace, digests, read_lines
from tests.process.test_viewers import CONFIG as WATCHED
from tests.process.test_viewers import TICKETS

# `tests/nodes/learn/test_insights.py` has the same for optimizers, in the quick form.
pytestmark = [pytest.mark.process, pytest.mark.slow]

CONFIG: dict[str, Any] = {**WATCHED, "environment": {"id": "CartPole-v1"}}
SAC: dict[str, Any] = {
    "environment": {"id": "Pendulum-v1"},
    "algorithm": {"name": "sac", "hidden_sizes": [8], "batch_size": 8},
    "replay": {"capacity": 10_000, "learning_starts": 100},
    "scheduler": {"replay_ratio": 0.03},
}
OWN: dict[str, Any] = {"network": "tests.algos.own_networks:Plain", "hidden_sizes": None}
CHOICE, BOX = {"value", "probabilities"}, {"value", "q", "mean", "std"}


def run(workplace: Workplace, config: dict[str, Any], *how: str, fps: int) -> Launched:
    viewer = {"node": "tests.process.thinking:Thoughtful", "settings": {"fps": fps}}
    launched = workplace.launch(*how, config=config | {"nodes": {"extra": [viewer]}}).done(
        within_s=100
    )
    assert "Error" not in launched.screen
    return launched


@pytest.mark.parametrize(
    ("changes", "how", "figures"),
    [
        ({}, "algorithm.recurrent=lstm", CHOICE),
        (SAC, "nodes.optimizer.count=2", BOX),
        (SAC | {"algorithm": SAC["algorithm"] | OWN}, "mode=inline", BOX),
    ],
)
def test_run_that_is_asked_equals_one_that_is_not(
    workplace: Workplace, changes: dict[str, Any], how: str, figures: set[str]
) -> None:
    config = CONFIG | changes
    alone = digests(run(workplace, config, how, fps=0).run)
    asked = run(workplace, config, how, fps=20)
    assert len(alone) == TICKETS
    assert digests(asked.run) == alone
    said = read_lines(asked.run / "thoughts.jsonl")
    assert said
    for each in said:
        told = {name for name in ("value", "probabilities", "q", "mean", "std") if each[name]}
        assert told == figures
