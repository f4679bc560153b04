"""What a launch would refuse is refused by the function that `config validate` asks too."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import msgspec
import pytest
import torch

from fast_core.algorithm.spec import REWARD, Blur, SpaceSpec
from fast_core.config import RunConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import loads
from fast_core.errors import FastLoopError
from fast_core.launcher.processes.start import probe_start
from fast_core.launcher.verdict import Findings, judge, remarks
from fast_core.nodes.learn.devices import check_devices
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
    verdict = judge(run, lambda: Findings(CARTPOLE, run), str(tmp_path))
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
        judge(run, lambda: Findings(CARTPOLE, run), str(tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["nodes.optimizer.device=nowhere"], r"nodes\.optimizer\.device must .* got 'nowhere'"),
        (
            ["nodes.policy.device=nowhere", "policy.placement=node"],
            r"nodes\.policy\.device must .* got 'nowhere'",
        ),
        (["nodes.policy.device=nowhere"], ""),  # policies act next to the environments
        (
            ["algorithm={name: dqn}", "nodes.optimizer={count: 2, collective: nccl, device: cuda}"],
            "a GPU for each of the 2 optimizers|'cuda'",
        ),
    ],
)
def test_devices_are_tried_where_they_are_used(
    overrides: list[str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    start = probe_start(config(*overrides))
    assert start.number == 4 + 2 * 20  # beyond those of training and evaluations
    with pytest.raises(FastLoopError, match=words) if words else nullcontext():
        check_devices(start.optimizer, start.policy_device)


def image(*shape: int, dtype: str = "uint8") -> SpaceSpec:
    return SpaceSpec("box", shape, dtype, low=(0.0,), high=(255.0,))


SMALLER = "let the environment give smaller ones"


@pytest.mark.parametrize(
    ("space", "frames", "words"),
    [
        (image(400, 600, 3), 1, r"107 million numbers \(428 MB\), .* 400 x 600 x 3: .*ResizeObs"),
        (image(3, 400, 600), 1, f"107 million .* 3 x 400 x 600: .*{SMALLER}"),
        (image(400, 600), 1, "107 million .* are 400 x 600: .*ResizeObservation"),
        (image(4, 400, 600, 3), 4, "107 million .* are 400 x 600 x 3: .*ResizeObservation"),
        (image(400, 600, 3, dtype="float32"), 1, f"48 million .* images .*{SMALLER}"),
        (image(720_000), 1, f"48 million .* observations of .* are 720000 numbers: .*{SMALLER}"),
        (
            SpaceSpec.composite([("arm", image(3)), ("cam", image(400, 600, 3))]),
            1,
            f"107 million .* images 'cam' of .* 400 x 600 x 3: .*{SMALLER}",
        ),
        (image(84, 84, 3), 1, ""),
        (SpaceSpec.composite([("of", SpaceSpec("discrete", (), "int64", n=3))]), 1, ""),
    ],
)
def test_large_images_are_told_of(
    space: SpaceSpec, frames: int, words: str, tmp_path: Path
) -> None:
    seen = msgspec.structs.replace(CARTPOLE, observation=space, frames=frames)
    run = config("rollout={shards: 1, envs_per_shard: 1, steps: 32}")
    said = remarks(judge(run, lambda: Findings(seen, run), str(tmp_path)).plan)
    assert re.search(words, *said) if words else not said


WIDE = Blur("number 3 of the observation", "float64", 5.4e6, 0.1, 0.5)
NARROW = msgspec.structs.replace(WIDE, dtype="float32")
PAID = msgspec.structs.replace(WIDE, what=REWARD)


@pytest.mark.parametrize(
    ("algorithm", "blur", "advice"),
    [
        ("{name: ppo}", WIDE, ""),
        ("{name: dqn, normalize_observations: true}", WIDE, ""),
        ("{name: dqn}", WIDE, "Set algorithm.normalize_observations: true"),
        ("{name: ppo, center_observations: false}", WIDE, "algorithm.center_observations: true"),
        ("{name: random}", WIDE, "Count it from somewhere near in the environment or a wrapper"),
        ("{name: ppo}", NARROW, "Declare float64 in its observation space"),
        ("{name: dqn}", NARROW, "space, and set algorithm.normalize_observations: true"),
        ("{name: ppo}", PAID, "(environment.wrappers) leave it out, unless it is meant to make"),
    ],
)
def test_numbers_that_float32_cannot_tell_apart_are_told_of(
    algorithm: str, blur: Blur, advice: str, tmp_path: Path
) -> None:
    seen = msgspec.structs.replace(CARTPOLE, blurred=(blur,))
    run = config(f"algorithm={algorithm}", "rollout={shards: 1, envs_per_shard: 2, steps: 64}")
    said = remarks(judge(run, lambda: Findings(seen, run), str(tmp_path)).plan)
    assert [advice in text for text in said] == [True] * bool(advice)
    assert all(f"{blur.what} of 'CartPole-v1' is about 5400000" in text for text in said)
