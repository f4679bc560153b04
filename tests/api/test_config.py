"""Configurations made in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fast_core import evaluate
from fast_core.api.config import Config, as_config
from fast_core.config import RunConfig
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import dumps, load
from fast_core.errors import ConfigError
from tests.envs.toy import Counter

TREE: dict[str, Any] = {
    "name": "x",
    "environment": {"id": "CartPole-v1"},
    "algorithm": {"name": "ppo", "hidden_sizes": (8, 8)},
    "stop": {"env_steps": np.int64(100)},
}


def test_dict_file_and_config_say_the_same(tmp_path: Path) -> None:
    config = Config(TREE)
    path = tmp_path / "x.yaml"
    path.write_text(dumps(config.values))
    assert Config.load(path) == config == as_config(TREE, None) == as_config(str(path), None)
    assert as_config(config, None) is config
    assert Config.load(path).algorithm.hidden_sizes == (8, 8)  # type: ignore[attr-defined]
    assert str(config) == path.read_text()
    assert repr(config) == "<Config 'x': ppo on CartPole-v1, seed 0>"


def test_attributes_are_the_keys_of_a_configuration() -> None:
    declared = [name for name in Config.__annotations__ if name not in ("values", "code")]
    assert declared == list(RunConfig.__struct_fields__)
    types = {name: RunConfig.__annotations__[name] for name in declared}
    for name in ("environment", "algorithm", "stop"):
        assert Config.__annotations__[name] == types[name]
    assert {"stop", "changed"} <= set(dir(Config(TREE)))


@pytest.mark.parametrize(
    "overrides",
    [
        {"seed": 3, "stop.env_steps": 200, "algorithm": {"name": "ppo", "gamma": 0.5}},
        ["seed=3", "stop.env_steps=200", "algorithm={name: ppo, gamma: 0.5}"],
    ],
)
def test_overrides_are_a_dict_or_a_list(overrides: Any) -> None:
    config = Config(TREE)
    changed = config.changed(overrides)
    assert (changed.seed, changed.stop.env_steps) == (3, 200)
    assert changed.algorithm.gamma == 0.5  # type: ignore[attr-defined]
    assert config.seed == 0 and config != changed


def test_config_cannot_be_changed_by_accident() -> None:
    config = Config(TREE)
    with pytest.raises(AttributeError, match=r"config.changed\(\{'seed': \.\.\.\}\)"):
        config.seed = 3
    with pytest.raises(AttributeError, match="no 'sed'"):
        config.sed  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("given", [Counter, {"id": Counter, "kwargs": {"length": 3}}])
def test_class_with_a_name_is_named(given: Any) -> None:
    config = Config(TREE, environment=given)
    assert (config.environment.id, config.code) == ("tests.envs.toy:Counter", None)
    assert config.environment.pickled is None


def test_function_without_a_name_is_code() -> None:
    config = Config(TREE, environment={"id": lambda length: Counter(length), "kwargs": {}})
    assert config.environment.id == "lambda" and config.environment.pickled == "environment.pkl"
    assert config.code
    assert config.changed({"seed": 1}).code == config.code
    # what is named afterwards takes its place
    for id, code in (("CartPole-v1", None), (Counter, None)):
        again = config.changed({"environment.id": id})
        assert (again.code, again.environment.pickled) == (code, None)
    assert config.changed(["environment.id=CartPole-v1"]).environment.pickled is None
    for given in (
        {"environment.id": lambda: Counter()},
        {"environment": lambda: Counter()},
        {"environment": {"id": lambda: Counter(), "frame_stack": 2}},
    ):
        back = Config(TREE).changed(given)
        assert back.environment.pickled == "environment.pkl" and back.code
    assert back.environment.frame_stack == 2


def test_file_beside_the_configuration_is_found_wherever_both_are(tmp_path: Path) -> None:
    config = Config(TREE, environment=lambda: Counter())
    (tmp_path / "config.yaml").write_text(dumps(config.values))
    found = load(tmp_path / "config.yaml", [], algorithm_config_type)
    assert found.environment.pickled == str(tmp_path / "environment.pkl")
    assert dumps(found) == dumps(config.values)


def test_further_environments_of_evaluations_are_the_same_object(tmp_path: Path) -> None:
    others = {"long": {"kwargs": {"length": 9}}, "other": {"id": "CartPole-v1"}}
    given = {**TREE, "evaluation": {"environments": others}}
    config = Config(given, environment=lambda **kwargs: Counter(**kwargs))
    (tmp_path / "config.yaml").write_text(dumps(config.values))
    found = load(tmp_path / "config.yaml", [], algorithm_config_type)
    environments = found.evaluation.environments
    assert environments["long"].pickled == str(tmp_path / "environment.pkl")
    assert (environments["other"].pickled, environments["other"].id) == (None, "CartPole-v1")
    assert dumps(found) == dumps(config.values)


def test_further_environments_of_evaluations_follow_what_is_changed() -> None:
    others = {"same": {}, "long": {"kwargs": {"length": 9}}}
    config = Config(TREE, evaluation={"environments": others})
    changed = config.changed({"environment.kwargs.end": "truncated"}).changed({"seed": 1})
    found = changed.evaluation.environments
    assert found["same"].kwargs == changed.environment.kwargs
    assert found["long"].kwargs == {**changed.environment.kwargs, "length": 9}


@pytest.mark.parametrize(
    ("given", "overrides", "says"),
    [
        (3, None, "the path of a YAML file, or a dict.*got a int"),
        ({**TREE, "sed": 1}, None, r"sed is not a key.*\(the configuration\).*Did you mean seed"),
        (TREE, {"sed": 1}, r"sed is not a key.*\(overrides\).*Did you mean seed"),
        (TREE, ["sed=1"], r"sed is not a key.*\(overrides\)"),
        (TREE, "seed=1", r"a list such as \['seed=1'\]; got 'seed=1'"),
        (TREE, ["seed"], "must look like `section.key=value`"),
        (
            {**TREE, "environment": {"id": "X-v0", "kwargs": {"table": [np.zeros(2)]}}},
            None,
            r"environment.kwargs.table\[0\] must be something that YAML.*functools.partial",
        ),
        (TREE, {"environment.kwargs.table": np.zeros(2)}, "environment.kwargs.table must be"),
        (
            {**TREE, "evaluation": {"environments": {"easy": {"id": Counter}}}},
            None,
            r"easy.id must be .*Only environment \(or environment.id\) may be a function or class",
        ),
        ({**TREE, "callbacks": [Counter]}, None, r"Callbacks that are objects go into train\("),
        (TREE, {"algorithm.network": Counter}, r"algorithm.network must be.*Name the class: 'pack"),
        (
            {**TREE, "environment": {"id": lambda: Counter(), "backend": "envpool"}},
            None,
            "environment.backend must be gymnasium for an environment that is a Python object",
        ),
    ],
)
def test_what_is_wrong_is_named(given: Any, overrides: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        as_config(given, overrides)


def test_policies_are_evaluated_in_an_environment_that_is_an_object() -> None:
    config = Config(
        TREE, environment={"id": lambda length: Counter(length), "kwargs": {"length": 4}}
    )
    episodes = evaluate(lambda obs: 1, config, episodes=2)
    assert episodes.lengths.tolist() == [4, 4]
