"""What an environment that can be there once in a process asks of a configuration."""

from __future__ import annotations

import msgspec
import pytest

from fast_core.config import RunConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError
from fast_core.launcher.prepare import budget, make_plan, resolve, scheduler_settings
from fast_core.launcher.sizing.one_per_process import check_one_per_process
from tests.nodes.stage import CARTPOLE

LONE = msgspec.structs.replace(CARTPOLE, one_per_process=True)
TEXT = """
name: lone
environment: {id: CartPole-v1}
rollout: {shards: 4, envs_per_shard: 1, steps: 8}
algorithm: {name: ppo, minibatch_size: 8}
evaluation: {envs: 1}
stop: {env_steps: 1000}
"""


def lone(*changes: str) -> RunConfig:
    """The resolved configuration, on two cores."""
    config = config_file.loads(TEXT, changes, algorithm_config_type, source="text")
    return resolve(config, LONE, 2)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("evaluation.video_every=1",),
        ("evaluation.envs=4", "evaluation.every_env_steps=null"),
        ("mode=inline", "rollout.shards=1", "evaluation.every_env_steps=null"),
    ],
)
def test_one_env_node_for_each_environment_is_enough(changes: tuple[str, ...]) -> None:
    config = lone(*changes)
    check_one_per_process(config, LONE)
    assert config.nodes.env.count == config.rollout.shards


def test_budget_says_why_there_are_more_env_nodes_than_cores() -> None:
    config = config_file.loads(TEXT, (), algorithm_config_type, source="text")
    assert "4 env nodes: one for each environment" in budget(config, LONE, 2).reasons[0]


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ("mode=inline", "process"),
        ("diagnostics.schedule=true", "false"),
        ("rollout.envs_per_shard=2", "rollout.shards to 8"),
        ("nodes.env.count=2", "rollout.shards, which is 4"),
        ("nodes.env.balance=true", "false"),
        ("evaluation.envs=2", "1"),
        ("evaluation.environments.far={kwargs: {max_episode_steps: 9}}", "Remove it"),
    ],
)
def test_two_in_a_process_are_refused_before_anything_starts(change: str, remedy: str) -> None:
    config = lone(change)
    key = change.split("=")[0].removesuffix(".far")
    with pytest.raises(ConfigError, match=f"{key} is .*{remedy}"):
        check_one_per_process(config, LONE)
    check_one_per_process(config, CARTPOLE)


def test_number_of_env_nodes_is_fixed() -> None:
    plan = make_plan(lone(), LONE, "", None, None)
    assert scheduler_settings(plan, "").spare_nodes is None
    other = make_plan(lone(), CARTPOLE, "", None, None)
    assert scheduler_settings(other, "").spare_nodes is not None
