"""The evaluator in further environments, driven by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fast_core.config import EnvironmentConfig, EvaluationConfig
from fast_core.nodes.act.evaluator import EvaluatorNode
from fast_core.policy.file import PolicyFile, best_policy_path, read_policy
from tests.nodes.stage import Stage, make_config


def cartpole(**kwargs: object) -> EnvironmentConfig:
    return EnvironmentConfig(id="CartPole-v1", kwargs=kwargs)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    environments = {"short": cartpole(max_episode_steps=5), "same": cartpole()}
    evaluation = EvaluationConfig(episodes=3, envs=2, environments=environments)
    return Stage(tmp_path, make_config(evaluation=evaluation))


def test_every_environment_is_played_in_with_the_same_episodes(stage: Stage) -> None:
    node = stage.start(EvaluatorNode, "evaluator-0")
    for version in (1, 2):
        stage.snapshot(version)
        event = stage.evaluate(node, version)
        assert list(event.others) == ["short", "same"]
        assert event.others["short"].lengths == (5, 5, 5)
        assert event.others["same"].returns == event.returns
        assert all(length > 5 for length in event.lengths)
        assert stage.memory.evaluation().held() is None


def test_each_environment_has_its_best_policy(stage: Stage) -> None:
    stage.snapshot(1, 0.25)
    event = stage.evaluate(stage.start(EvaluatorNode, "evaluator-0"), 1)
    for name, played in event.played.items():
        best = read_policy(best_policy_path(stage.plan.run_directory, name))
        assert isinstance(best, PolicyFile)
        assert (best.origin.version, best.origin.env_steps) == (1, 10)
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
    Stage(tmp_path, config).start(EvaluatorNode, "evaluator-0")
    first = config.numbers.evaluator
    numbers = sorted(json.loads(path.name) for path in marks.iterdir())
    assert numbers == list(range(first, first + 4))
    assert config.numbers.command == first + 4


def numbered(folder: str, number: int) -> object:
    """CartPole that leaves its number, once."""
    import gymnasium

    (Path(folder) / str(number)).touch(exist_ok=False)
    return gymnasium.make("CartPole-v1")
