import pytest

from fast_core.algos.ppo.config import PPOConfig
from fast_core.config.algorithms import REGISTRY, algorithm_config_type
from fast_core.errors import ConfigError


def test_registered_name_and_import_path_find_the_same_type():
    assert algorithm_config_type("ppo") is PPOConfig
    assert algorithm_config_type("fast_core.algos.ppo.config:PPOConfig") is PPOConfig


def test_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match=r"'poo'.*Did you mean 'ppo'"):
        algorithm_config_type("poo")


def test_name_that_is_like_none_gets_no_suggestion():
    with pytest.raises(ConfigError, match=r"one of \['appo', 'ddpg', .*'td3'\].*got 'dreamer'\.$"):
        algorithm_config_type("dreamer")


@pytest.mark.parametrize("name", REGISTRY)
def test_configuration_knows_its_own_name(name):
    config = algorithm_config_type(name)()
    assert config.name == name
    assert config.learns_from == (
        "rollouts" if "ppo" in name or name in ("impala", "random") else "replay"
    )


@pytest.mark.parametrize(
    "path",
    [
        "nowhere.at_all:Config",
        "fast_core.algos.ppo.config:Missing",
        "fast_core.algos.nets.networks:NetworkShape",
        ":",
    ],
)
def test_import_path_without_a_configuration_type_is_refused(path):
    with pytest.raises(ConfigError, match=r"algorithm\.name"):
        algorithm_config_type(path)
