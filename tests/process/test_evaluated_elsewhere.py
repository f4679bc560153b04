"""Evaluations in further environments while a run trains."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fast_core.callbacks import Evaluation, LiveRun
from tests.forms import slow_but
from tests.process.harness import TOY, Workplace, digests, read_lines

pytestmark = pytest.mark.process

ENVIRONMENTS = {"short": {"kwargs": {"length": 10}}, "same": {}}


class Listener:
    """Notes what callbacks are told."""

    def on_evaluation(self, evaluation: Evaluation, run: LiveRun) -> None:
        with (run.directory / "told.txt").open("a") as file:
            lengths = {name: each.lengths for name, each in evaluation.others.items()}
            file.write(f"{json.dumps(lengths)}\n")


def config(mode: str, environments: dict[str, Any]) -> dict[str, Any]:
    evaluation = {"every_env_steps": 64, "episodes": 2, "envs": 2, "mode": mode}
    return {
        **TOY,
        "name": "elsewhere",
        "evaluation": {**evaluation, "environments": environments},
        "metrics": {"tensorboard": False, "interval_s": 0.01},
        "diagnostics": {"digests": True},
        "callbacks": ["tests.process.test_evaluated_elsewhere:Listener"] if environments else [],
        "stop": {"env_steps": 256},
    }


@pytest.mark.parametrize("mode", slow_but(["async"], ["async", "sync"]))
def test_evaluating_elsewhere_changes_no_bit_of_training_and_goes_on_after_a_resume(
    workplace: Workplace, mode: str
) -> None:
    alone = workplace.launch(config=config(mode, {}))
    beside = workplace.launch("stop.env_steps=128", config=config(mode, ENVIRONMENTS))
    assert alone.wait() == 0, alone.screen
    assert beside.wait() == 0, beside.screen
    resumed = workplace.resume(beside, "stop.env_steps=256").done()
    assert digests(alone.run) == digests(beside.run)

    rows = [row["values"] for row in read_lines(beside.run / "metrics.jsonl")]
    evaluated = [row for row in rows if "eval/return_mean" in row]
    assert len(evaluated) >= 2
    for row in evaluated:
        assert row["evaluation/short/length_mean"] == 10
        assert row["eval/length_mean"] == row["evaluation/same/length_mean"] == 100
        assert row["evaluation/same/return_mean"] == row["eval/return_mean"]
    told = read_lines(beside.run / "told.txt")
    assert told and all(each == {"short": [10, 10], "same": [100, 100]} for each in told)
    assert "best in short" in resumed.screen and "best in same" in resumed.screen
    played = workplace.fastloop(
        ["eval", str(beside.run), "--checkpoint", "best-short"], beside.home
    ).done()
    assert json.loads(played.screen.splitlines()[-1])["policy"] == "best-short"
    for run in (alone, beside, resumed):
        run.assert_gone()


@pytest.mark.slow
def test_environment_with_other_spaces_is_refused_before_anything_starts(
    workplace: Workplace,
) -> None:
    launched = workplace.launch(config=config("sync", {"pole": {"id": "CartPole-v1"}})).ends(2)
    words = "evaluation.environments.pole must have the spaces of `environment`"
    assert words in launched.screen and "not box [2] of float32" in launched.screen
    assert not list(launched.home.glob("runs/*"))
