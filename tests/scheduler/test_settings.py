from fractions import Fraction

import pytest

from fast_core.errors import ConfigError
from tests.scheduler.simulation import make_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shards", 0),
        ("slots_per_shard", 0),
        ("rows_per_rollout", 0),
        ("degree", -1),
        ("updates_granted", -1),
        ("learning_starts", -1),
        ("eval_episodes", 0),
        ("eval_every_env_steps", 0),
        ("checkpoint_every_updates", 0),
        ("stop_env_steps", 0),
        ("stop_updates", 0),
        ("stop_score_held", 0),
    ],
)
def test_out_of_range_setting_is_refused_by_name_and_value(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"{name} must be at least \d; got {value}"):
        make_settings(**{name: value})


def test_updates_that_are_never_granted_cannot_be_a_stop_condition() -> None:
    with pytest.raises(ConfigError, match=r"stop\.updates must be reachable; got 5"):
        make_settings(stop_updates=5, updates_granted=0)


def test_ratio_is_taken_as_it_is_written() -> None:
    for text, exact in (("0.1", (1, 10)), ("0.333", (333, 1000)), ("1/3", (1, 3)), ("1e3", None)):
        ratio = make_settings(replay="replay", replay_ratio=text).ratio
        assert ratio == (1000 if exact is None else Fraction(*exact))


def test_parts_of_a_checkpoint_are_with_all_that_learn_and_collect() -> None:
    settings = make_settings(optimizers=("o0", "o1"), replay="replay", savers=("mine",))
    assert settings.working_nodes == ("o0", "o1", "replay", "env0", "env1", "mine")
    assert settings.optimizer == "o0"
    assert make_settings(optimizers=("o0",)).working_nodes == ("o0", "env0", "env1")


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="env0"):
        make_settings(env_nodes=("env0", "env0"))
