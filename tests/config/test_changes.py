"""What callbacks change, and what evaluations make of it."""

from __future__ import annotations

import pytest

from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.changes import evaluated

CONFIG = """
name: changing
environment: {id: CartPole-v1, attributes: {gravity: 9.8, length: 0.5}}
algorithm: {name: ppo}
stop: {env_steps: 1000}
evaluation:
  environments:
    task: {attributes: {gravity: 9.8}}
    moon: {attributes: {gravity: 1.6}}
    same: {kwargs: {sutton_barto_reward: true}}
    other: {id: Acrobot-v1}
"""
CHANGED = {"environment.attributes.gravity": 5.0}


@pytest.mark.parametrize("read_again", [False, True], ids=["given", "from config.yaml"])
@pytest.mark.parametrize(
    ("attributes", "followed"), [("configured", 9.8), ("current", 5.0)], ids=str
)
def test_evaluations_follow_a_curriculum_but_for_values_of_their_own(
    attributes: str, followed: float, read_again: bool
) -> None:
    """A value of its own is kept too where training begins with the same."""
    change = f"evaluation.attributes={attributes}"
    config = config_file.loads(CONFIG, [change], algorithm_config_type, source="test")
    if read_again:
        text = config_file.dumps(config)
        config = config_file.loads(text, [], algorithm_config_type, source="x", resolved=True)
    found = {
        name: evaluated(config, name, CHANGED).attributes
        for name in (None, *config.evaluation.environments)
    }
    assert found == {
        None: {"gravity": followed, "length": 0.5},
        "task": {"gravity": 9.8, "length": 0.5},
        "moon": {"gravity": 1.6, "length": 0.5},
        "same": {"gravity": followed, "length": 0.5},
        "other": {},
    }
