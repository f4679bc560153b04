"""What a run can't begin from says which key makes it fit."""

from __future__ import annotations

import msgspec
import pytest

from fast_core.algos.ppo.config import PPOConfig
from fast_core.config import AlgorithmConfig
from fast_core.errors import ConfigError
from fast_core.policy.beginning import FirstValues, check_start
from fast_core.policy.file import Parameter, plain
from tests.nodes.stage import CARTPOLE


def start(algorithm: AlgorithmConfig, environment: object) -> FirstValues:
    fields = algorithm.policy_fields(environment)  # type: ignore[arg-type]
    parameters = tuple(Parameter(field.name, field.shape, "float32", b"") for field in fields)
    return FirstValues(
        source="old", version=1, env_steps=1, algorithm=plain(algorithm), parameters=parameters
    )


def test_a_policy_of_before_numbers_had_an_origin_names_the_key() -> None:
    doubles = msgspec.structs.replace(CARTPOLE.observation, dtype="float64")
    environment = msgspec.structs.replace(CARTPOLE, observation=doubles)
    before, now = PPOConfig(center_observations=False), PPOConfig()
    with pytest.raises(ConfigError, match=r"algorithm\.center_observations False, not True"):
        check_start(start(before, environment), now, environment)
    check_start(start(before, environment), before, environment)
    check_start(start(before, CARTPOLE), now, CARTPOLE)  # where it is the same either way


def test_a_policy_of_before_actions_had_a_unit_acts_in_that_of_the_environment() -> None:
    now = PPOConfig(normalize_actions=True)
    before = start(now, CARTPOLE)
    del before.algorithm["normalize_actions"]
    with pytest.raises(ConfigError, match=r"algorithm\.normalize_actions False, not True"):
        check_start(before, now, CARTPOLE)
    check_start(before, PPOConfig(normalize_actions=False), CARTPOLE)
