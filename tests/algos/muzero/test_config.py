"""What is refused before anything starts, and what a run is told."""

import msgspec
import numpy as np
import pytest

from fast_core.algorithm import LearnerSetup, Window
from fast_core.algorithm.spec import SpaceSpec
from fast_core.config.algorithms import algorithm_config_type
from fast_core.config.file import loads
from fast_core.errors import ConfigError
from tests.algos.muzero.cases import CHOICES, ENVIRONMENT, SEEN, make_config

SETUP = LearnerSetup(0, 1, 4, 8)


def acting_in(action):
    return msgspec.structs.replace(ENVIRONMENT, action=action)


BOX = acting_in(SpaceSpec("box", (2,), "float32", low=(-1.0,), high=(1.0,)))
SEVERAL = acting_in(SpaceSpec("multi_discrete", (2,), "int64", counts=(2, 3)))


@pytest.mark.parametrize(
    ("changes", "environment", "said"),
    [
        ({}, BOX, "one discrete action per step; 'Test-v0' has box. Use sac, td3 or dsact"),
        ({}, SEVERAL, "one discrete action per step; 'Test-v0' has multi_discrete"),
        ({"network": "mine:Net"}, ENVIRONMENT, "network must be auto, mlp, nature_cnn or residual"),
        ({"backend": "numpy"}, ENVIRONMENT, "backend must be auto or torch"),
        ({"two_players": True}, ENVIRONMENT, "needs observations with a part 'to_play'"),
    ],
)
def test_what_it_cannot_do_is_refused(changes, environment, said):
    with pytest.raises(ConfigError, match=said):
        make_config(**changes).check(environment, SETUP)


def test_two_players_are_taken_where_observations_say_who_moves():
    parts = (("board", SEEN), ("to_play", SpaceSpec("discrete", (), "int64", n=2)))
    environment = msgspec.structs.replace(ENVIRONMENT, observation=SpaceSpec.composite(parts))
    make_config(two_players=True).check(environment, SETUP)


def test_more_simulations_than_a_tree_holds_are_refused():
    with pytest.raises(ConfigError, match=r"algorithm\.simulations.*65535"):
        loads(
            "{name: x, environment: {id: CartPole-v1}, algorithm: {name: muzero}}",
            ["algorithm.simulations=65536"],
            algorithm_config_type,
            source="a test",
        )


@pytest.mark.parametrize(("bootstrap", "after"), [("network", 2), ("search", 3)])
def test_sequences_reach_as_far_as_targets_need(bootstrap, after):
    spec = make_config(unroll=5, n_step=3, bootstrap=bootstrap).replay()
    assert spec.sequence == Window(6, after=after)


def test_columns_are_a_policy_and_a_value():
    policy, value = make_config().columns(ENVIRONMENT)
    assert (policy.shape, value.shape) == ((CHOICES,), ())
    assert {policy.writer, value.writer} == {"policy"}


def test_what_travels_is_what_the_layout_has():
    config = make_config(normalize_observations=True)
    fields = config.policy_fields(ENVIRONMENT)
    learner = config.make_algorithm(ENVIRONMENT, SETUP)
    shapes = [np.shape(array) for array in learner.policy_parameters()]
    assert shapes == [field.shape for field in fields]


def test_it_is_found_by_its_name_and_by_those_of_its_kin():
    assert algorithm_config_type("muzero") is type(make_config())
    with pytest.raises(ConfigError, match="The nearest to it is 'muzero'"):
        algorithm_config_type("efficientzero")


def test_export_is_refused_with_what_can_be_done():
    with pytest.raises(ConfigError, match=r"searches before every action.*load_policy loads it"):
        make_config().policy_module(ENVIRONMENT, ())
