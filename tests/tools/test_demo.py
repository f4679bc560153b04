"""What is shown by `fastloop demo screens`, and for what an id alone stands."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fast_core.config import EnvironmentConfig
from fast_core.envs.trying.probe import probe
from fast_core.errors import ConfigError
from fast_core.tools.demo import OWN, config_of, environment_of


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("CartPole-v1", {"id": "CartPole-v1"}),
        (
            "fastloop/Drift-v0",
            {"id": "fastloop/Drift-v0", "modules": ["fast_core.clients.games.drift_task"]},
        ),
        ("ALE/Pong-v5", {"id": "ALE/Pong-v5", "atari": {}}),
        (
            "Sonic-Genesis-v0",
            {
                "id": "fast_core.clients.games.retro:RetroGame",
                "kwargs": {"game": "Sonic-Genesis-v0"},
            },
        ),
    ],
)
def test_an_id_alone_stands_for_what_plays_it(id: str, expected: dict[str, Any]) -> None:
    assert environment_of(id) == expected


@pytest.mark.parametrize("id", OWN)
def test_what_comes_along_is_found_by_its_id(id: str) -> None:
    config = msgspec.convert(environment_of(id), EnvironmentConfig)
    assert probe(config, 0).action_mask == config.action_mask


def test_each_environment_has_a_process_and_nothing_is_learned() -> None:
    config = config_of("CartPole-v1", 6, "here", ["dashboard.fps=2", "seed=3"])
    assert config.rollout.shards == config.nodes.env.count == config.dashboard.tiles == 6
    assert (config.envs, config.algorithm.name, config.seed) == (6, "random", 3)
    assert config.dashboard.enabled and config.dashboard.fps == 2
    assert config.environment.wrappers[-1].name.endswith(":Paced")
    with pytest.raises(ConfigError, match="tile"):
        config_of("CartPole-v1", 6, "here", ["dashboard.tile=2"])
