"""The evaluator in further environments, driven by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fast_core.config import EnvironmentConfig, EvaluationConfig
from fast_core.messages import Evaluate, Evaluated
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.policy.file import PolicyFile, best_policy_path, read_policy
from tests.nodes.stage import Stage, drain, make_config


def cartpole(**kwargs: object) -> EnvironmentConfig:
    return EnvironmentConfig(id="CartPole-v1", kwargs=kwargs)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    environments = {"short": cartpole(max_episode_steps=5), "same": cartpole()}
    evaluation = EvaluationConfig(episodes=3, envs=2, environments=environments)
    return Stage(tmp_path, make_config(evaluation=evaluation))


def evaluated(stage: Stage, node: EvaluatorNode, version: int, value: float = 0.0) -> Evaluated:
    flat = stage.memory.parameters.empty()
    flat.fill(value)
    stage.memory.evaluation().write(version, 10 * version, flat)
    stage.hub.send("evaluator-0", Evaluate(version, version, 10 * version, 3))
    drain(node)
    (event,) = stage.events()
    assert isinstance(event, Evaluated)
    return event


def test_every_environment_is_played_in_with_the_same_episodes(stage: Stage) -> None:
    node = EvaluatorNode(stage.context("evaluator-0"))
    node.setup()
    for version in (1, 2):
        event = evaluated(stage, node, version)
        assert list(event.others) == ["short", "same"]
        assert event.others["short"].lengths == (5, 5, 5)
        assert event.others["same"].returns == event.returns
        assert all(length > 5 for length in event.lengths)
        assert stage.memory.evaluation().held() is None
    node.close()


def test_each_environment_has_its_best_policy(stage: Stage) -> None:
    node = EvaluatorNode(stage.context("evaluator-0"))
    node.setup()
    event = evaluated(stage, node, 1, 0.25)
    node.close()
    for name, played in event.played.items():
        best = read_policy(best_policy_path(stage.plan.run_directory, name))
        assert isinstance(best, PolicyFile)
        assert best.origin.mean_return == pytest.approx(np.mean(played.returns))
        assert best.origin.source == ("best" if name is None else f"best-{name}")
        assert all((array == 0.25).all() for array in best.arrays())
    names = {path.name for path in Path(stage.plan.run_directory, "checkpoints").iterdir()}
    assert names == {
        "best-policy.msgpack",
        "best-policy-short.msgpack",
        "best-policy-same.msgpack",
    }


def test_environments_that_are_open_at_once_have_numbers_of_their_own(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    environment = EnvironmentConfig(
        id="tests.nodes.act.test_evaluated_elsewhere:numbered",
        kwargs={"folder": str(marks), "number": "{number}"},
    )
    evaluation = EvaluationConfig(episodes=3, envs=2, environments={"a": environment})
    config = make_config(environment=environment, evaluation=evaluation)
    stage = Stage(tmp_path, config)
    node = EvaluatorNode(stage.context("evaluator-0"))
    node.setup()
    node.close()
    first = config.numbers.evaluator
    numbers = sorted(json.loads(path.name) for path in marks.iterdir())
    assert numbers == list(range(first, first + 4))
    assert config.numbers.command == first + 4


def numbered(folder: str, number: int) -> object:
    """CartPole that leaves its number, once."""
    import gymnasium

    (Path(folder) / str(number)).touch(exist_ok=False)
    return gymnasium.make("CartPole-v1")
