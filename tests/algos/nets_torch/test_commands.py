from __future__ import annotations

import pytest
import torch

from fast_core.algorithm.spec import EnvironmentSpec, SpaceSpec
from fast_core.algos.nets_torch.commands import ScoreCommands
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError


def bags(*shape: int) -> SpaceSpec:
    return SpaceSpec("box", shape, "int8", low=(0.0,), high=(1.0,))


SEEN = SpaceSpec.composite([("commands", bags(5, 8)), ("text", bags(8))])


def test_commands_that_change_places_change_scores() -> None:
    torch.manual_seed(0)
    net = ScoreCommands(SEEN, choices=5, width=4)
    obs = {"text": torch.rand(3, 8).round(), "commands": torch.rand(3, 5, 8).round()}
    order = torch.tensor([3, 0, 4, 2, 1])
    said = net(obs)
    other = net({**obs, "commands": obs["commands"][:, order]})
    assert said.shape == (3, 9)
    torch.testing.assert_close(other[:, :5], said[:, order])
    torch.testing.assert_close(other[:, 5:], said[:, 5:])
    assert (said[0, :5] - said[0, 0]).abs().max() > 0, "other words, other scores"
    elsewhere = net({**obs, "text": obs["text"].flip(0)})
    assert not torch.allclose(elsewhere[0, :5], said[0, :5]), "by what the text says"


@pytest.mark.parametrize(
    ("observation", "n", "says"),
    [
        (SEEN, 4, r"got 4 choices, text \(8,\) and commands \(5, 8\)"),
        (SpaceSpec.composite([("text", bags(8))]), 5, r"text \(8,\) and commands None"),
        (bags(8), 5, "text None and commands None"),
    ],
)
def test_other_observations_are_refused(observation: SpaceSpec, n: int, says: str) -> None:
    discrete = SpaceSpec("discrete", (), "int64", n=n)
    config = PPOConfig(network="fast_core.algos.nets_torch.commands:ScoreCommands")
    with pytest.raises(ConfigError, match=says):
        config.examine(EnvironmentSpec("Test-v0", observation, discrete))
