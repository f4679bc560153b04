"""What an algorithm declares is stored where it belongs, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from fast_core.algorithm import Policy, PolicySetup
from fast_core.algorithm.spec import Column, EnvironmentSpec, FieldSpec
from fast_core.algos.muzero.config import MuZeroConfig
from fast_core.algos.ppo.config import PPOConfig
from fast_core.errors import ConfigError
from fast_core.run.columns import (
    batch_fields,
    check_columns,
    replay_columns,
    reply_fields,
    rollout_fields,
)
from fast_core.run.plan import RunPlan
from tests.nodes.counting import CountingConfig
from tests.nodes.replaying import ReplayingConfig
from tests.nodes.stage import make_config, make_run_plan, stacked


def names(fields: tuple[FieldSpec, ...]) -> str:
    return " ".join(field.name for field in fields)


def test_without_declared_columns_the_order_is_fixed(tmp_path: Path) -> None:
    """It is that of the places in memory."""
    config = make_config(algorithm=CountingConfig(remembers=True))
    plan = make_run_plan(tmp_path, config, environment=stacked(3))
    rollout = "obs action behaviour_log_prob reward terminated truncated quarantined final_obs "
    assert names(rollout_fields(plan)) == rollout + "policy_version frame_age state"
    assert names(reply_fields(plan)) == "action behaviour_log_prob environment_action state"
    assert names(replay_columns(plan)) == "obs action reward"
    batch = "obs next_obs action reward discount weight log row"
    plan = make_run_plan(tmp_path, make_config(algorithm=ReplayingConfig()), environment=stacked(3))
    assert names(batch_fields(plan)) == batch
    seen = batch_fields(plan)[0]
    assert (seen.shape, seen.dtype, seen.axes) == ((3, 4), "float32", "rollout")


def test_declared_columns_come_last(tmp_path: Path) -> None:
    config = make_config(algorithm=ReplayingConfig(declares=True))
    plan = make_run_plan(tmp_path, config)
    assert names(rollout_fields(plan)[-2:]) == "position glance"
    assert names(reply_fields(plan)[-2:]) == "environment_action glance"
    assert names(replay_columns(plan)) == "obs action reward position glance"
    assert names(batch_fields(plan)[-2:]) == "position glance"


class Declaring(CountingConfig, frozen=True, kw_only=True):
    """Has whatever columns it is told."""

    declared: object = ()

    def columns(self, environment: object) -> tuple[Column, ...]:
        """These."""
        return self.declared  # type: ignore[return-value]


class Glancing(PPOConfig, frozen=True, kw_only=True):
    """Declares what PPO's policies know nothing of."""

    def columns(self, environment: object) -> tuple[Column, ...]:
        """One that policies are to write."""
        return (Column("glance", (2,), "float32", writer="policy"),)


def test_a_column_that_policies_of_fastloop_do_not_write_is_refused_at_launch(
    tmp_path: Path,
) -> None:
    """Else the first one who acts would say so, in a node."""
    with pytest.raises(
        ConfigError, match=r"'glance' with the writer 'policy' only beside a make_"
    ) as raised:
        make_run_plan(tmp_path, make_config(algorithm=Glancing(minibatch_size=16)))
    assert "that of ActorCriticConfig does not" in str(raised.value)


class Seeing(Glancing, frozen=True, kw_only=True):
    """Makes policies of its own, who may write it."""

    def make_policy(self, environment: EnvironmentSpec, setup: PolicySetup) -> Policy:
        """As PPO's."""
        return super().make_policy(environment, setup)


def test_who_makes_the_policies_may_let_them_write_columns(tmp_path: Path) -> None:
    """FastLoop's own write those that they know."""
    for settings, last in ((Seeing(minibatch_size=16), "glance"), (MuZeroConfig(), "root_value")):
        plan = make_run_plan(tmp_path, make_config(algorithm=settings))
        assert names(reply_fields(plan)[-1:]) == last


def plan_with(folder: Path, declared: object) -> RunPlan:
    return make_run_plan(folder, make_config(algorithm=Declaring(declared=declared)))


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (None, "a tuple of fast_core.algorithm.spec.Column; got None"),
        ((FieldSpec("cost", (), "float32"),), "a tuple of fast_core.algorithm.spec.Column; got"),
        ((Column("reward", (), "float32"),), "column 'reward' with a name that no other"),
        ((Column("next_obs", (), "float32"),), "column 'next_obs' with a name"),
        ((Column("environment_action", (), "float32"),), "column 'environment_action' with a name"),
        ((Column("a", (), "float32"),) * 2, "column 'a' with a name"),
        ((Column("a", (), "float32", axes="T+1"),), "column 'a' with a value for each step"),
        ((Column("a", (), "float"), Column("b", (), "flaot")), "column 'b' with the dtype of"),
        ((Column("a", (), "U3"),), "column 'a' with the dtype of a number"),
        ((Column("a", (), "int64", fold="sum"),), "column 'a' with the dtype 'float32', to"),
        (
            (Column("a", (), "float32", writer="me"),),
            "column 'a' with one of the writers 'environment', 'policy'",
        ),  # type: ignore[arg-type]
    ],
)
def test_others_are_refused_before_the_run_begins(
    tmp_path: Path, declared: object, said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"columns\(\) must return {said}"):
        plan_with(tmp_path, declared)


def test_what_can_be_stored_is_taken(tmp_path: Path) -> None:
    made = [Column("a", (3, 2), "uint8", writer="policy"), Column("b", (), "bool", fold="first")]
    check_columns(plan_with(tmp_path, tuple(made)))
