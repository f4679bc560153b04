"""Environments, and all that steps them, keep what `fast_core.testing` asks of a user's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.config import EnvironmentConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.testing import check_environment
from tests.conformance.adapters import ADAPTERS
from tests.conformance.test_env_spaces import doors
from tests.envs.driver import toy

CONFIGS = Path(__file__).parents[2] / "configs"


def shipped(name: str) -> EnvironmentConfig:
    """That of a configuration that comes with FastLoop."""
    return config_file.load(CONFIGS / f"{name}.yaml", [], algorithm_config_type).environment


LATE = {"length": 100, "rewards": [0.0, 1.0]}
# What is made together is not stepped each by itself, so it refuses these.
IN_TURN = {
    "mask in info": doors("info", length=9),
    "repeated": toy("Ticks", kwargs={"length": 20}, frame_skip=3),
    "repeated, limit": toy("Ticks", kwargs={"max_episode_steps": 11}, frame_skip=3),
    "remembers": shipped("ppo_memory"),
    "drifts": shipped("ppo_drift"),
}
CASES = {
    "CartPole-v1": EnvironmentConfig(id="CartPole-v1"),
    "Pendulum-v1": EnvironmentConfig(id="Pendulum-v1"),  # ends after 200 steps
    "Acrobot-v1": EnvironmentConfig(id="Acrobot-v1", kwargs={"max_episode_steps": 50}),
    "ends apart": EnvironmentConfig(id="CartPole-v1", kwargs={"max_episode_steps": 15}),
    "counts": toy("Counter", kwargs={"length": 7}),
    "limit": toy("Counter", kwargs={"length": 100, "max_episode_steps": 8}),
    "no reward": toy("Sparse", kwargs=LATE, no_reward_timeout_steps=5, no_reward_penalty=-1),
    "float64": toy("Typed", kwargs={"shape": [2], "dtype": "float64", "length": 9}),
    "composite": toy("Robot", kwargs={"length": 9}),
    "grid": toy("Robot", kwargs={"length": 9, "actions": "grid"}),
    "binary": toy("Robot", kwargs={"length": 9, "actions": "binary"}),
    "mask": doors("obs", many=True, length=9),
    "mask, other lengths": toy("Corridors", action_mask="open"),
    "stacked": toy("Ticks", frame_stack=3),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("name", CASES)
def test_environment_and_what_steps_it_keep_the_contract(name: str, adapter: str) -> None:
    steps = 210 if "-v" in name else 60
    check_environment(CASES[name], steps=steps, make=ADAPTERS[adapter])


@pytest.mark.parametrize("name", IN_TURN)
def test_environment_that_is_stepped_by_itself_keeps_the_contract(name: str) -> None:
    check_environment(IN_TURN[name], steps=60)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_pool_keeps_the_contract_but_for_its_seeds(name: str) -> None:
    pytest.importorskip("envpool")
    config = EnvironmentConfig(id=name, backend="envpool")
    check_environment(config, repeatable=False)
