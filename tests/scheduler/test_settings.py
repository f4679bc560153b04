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


@pytest.mark.parametrize("off", [{"evaluator": None}, {"eval_every_env_steps": None}])
def test_score_without_evaluations_is_refused(off: dict[str, object]) -> None:
    on: dict[str, object] = {"evaluator": "evaluator", "eval_every_env_steps": 10}
    make_settings(stop_score=1.0, **on)
    with pytest.raises(ConfigError, match=r"stop\.score needs evaluations"):
        make_settings(stop_score=1.0, **(on | off))


def test_run_without_env_nodes_is_refused() -> None:
    with pytest.raises(ConfigError, match="no env node"):
        make_settings(env_nodes=())


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="env0"):
        make_settings(env_nodes=("env0", "env0"))
