"""What a launch would refuse is refused by the function that `config validate` asks too."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.algos.registry import algorithm_config_type
from fast_core.config import RunConfig
from fast_core.config_file import loads
from fast_core.errors import FastLoopError
from fast_core.launcher.start import probe_start
from fast_core.launcher.verdict import Found, judge
from tests.nodes.stage import CARTPOLE

TEXT = """\
name: x
environment: {id: CartPole-v1}
rollout: {shards: 2, envs_per_shard: 2, steps: 8}
algorithm: {name: ppo, minibatch_size: 32}
stop: {env_steps: 10_000}
"""


def config(*overrides: str) -> RunConfig:
    return loads(TEXT, overrides, algorithm_config_type, source="x.yaml")


def test_run_that_can_begin_has_a_plan(tmp_path: Path) -> None:
    run = config()
    verdict = judge(run, lambda: Found(CARTPOLE, run), str(tmp_path))
    assert verdict.plan.config.nodes.env.count in (1, 2)
    assert verdict.plan.config.policy.backend == "numpy"
    assert verdict.divided.reasons


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["algorithm.minibatch_size=33"], "minibatch_size must be at most the rows of a ticket"),
        (
            [
                "algorithm={name: dqn}",
                "nodes.extra=[examples.exploration_bonus:CountBonus, "
                "examples.exploration_bonus:NoveltyLog]",
            ],
            "which takes rollouts .* learns from replay",
        ),
        (["nodes.extra=[examples.exploration_bonus:CountBonus]"], "emits Novelty, but no node"),
        (["algorithm={name: sac}"], "takes boxes of floating-point actions"),
        (["rollout={steps: 10_000_000, envs_per_shard: 1000}"], "of shared memory"),
        (
            ["algorithm={name: dqn}", "replay.capacity=1_000_000_000_000"],
            "may take|of shared memory",
        ),
    ],
)
def test_what_can_not_run_is_refused(overrides: list[str], words: str, tmp_path: Path) -> None:
    run = config(*overrides)
    with pytest.raises(FastLoopError, match=words):
        judge(run, lambda: Found(CARTPOLE, run), str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_devices_are_tried_where_they_are_used() -> None:
    gpu = "nodes.policy.device=cuda:1"
    assert probe_start(config(gpu)).devices == ()  # policies act next to the environments
    both = probe_start(config(gpu, "policy.placement=node", "nodes.optimizer.device=cuda"))
    assert both.devices == (("cuda", "nodes.optimizer.device"), ("cuda:1", "nodes.policy.device"))
    assert both.number == 4 + 2 * 20  # beyond those of training and evaluations
