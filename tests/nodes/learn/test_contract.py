"""What strays from the contract of an algorithm is named, where it happens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from fast_core.algorithm import ActionOutput, Array, LearnerSetup, PolicySetup, UpdateReport
from fast_core.algorithm.spec import Column, FieldSpec, SpaceSpec
from fast_core.errors import ConfigError
from fast_core.nodes.learn.contract import checked_report, make_learner
from fast_core.policy.checked import CheckedPolicy, make_policy
from fast_core.run.plan import RunPlan
from tests.nodes.stage import CARTPOLE

ROWS = 3
BOX = SpaceSpec("box", (2,), "float32", low=(-1.0,), high=(1.0,))
OBS = np.zeros((ROWS, 4), np.float32)


class Answers:
    """A policy with the given answers."""

    def __init__(self, output: object, taken: object = None) -> None:
        self._output, self._taken = output, taken

    def load(self, parameters: object) -> None:
        """Nothing."""

    def act(self, obs: Array, *, noise: Array, explore: bool, state: object = None) -> object:
        return self._output

    def environment_action(self, action: Array) -> object:
        return self._taken


def answer(
    action: object, log_prob: object = None, state: object = None, *, state_size: int = 0
) -> ActionOutput:
    log_prob = np.zeros(ROWS, np.float32) if log_prob is None else log_prob
    return checked(ActionOutput(action, log_prob, state), state_size=state_size)  # type: ignore[arg-type]


def checked(output: object, *, state_size: int = 0) -> ActionOutput:
    return policy(Answers(output), state_size).act(OBS, noise=OBS, explore=True)


def policy(answers: Answers, state_size: int = 0) -> CheckedPolicy:
    stored = FieldSpec("action", (2,), "float32")
    return CheckedPolicy(answers, stored, BOX, state_size)  # type: ignore[arg-type]


def plan(made: object) -> RunPlan:
    blueprint = SimpleNamespace(
        make_policy=lambda environment, setup: made,
        make_algorithm=lambda environment, setup: made,
    )
    parts = {"blueprint": blueprint, "environment": None, "learner_setup": None, "optimizers": 1}
    return cast(RunPlan, SimpleNamespace(**parts))


def test_right_answer_is_passed_on_as_it_is() -> None:
    output = ActionOutput(np.zeros((ROWS, 2), np.float32), np.zeros(ROWS, np.float32))
    assert checked(output) is output


@pytest.mark.parametrize(
    ("extra", "got"), [({}, "none"), ({"sur": OBS}, "sur"), ([OBS], "a list"), (None, "None")]
)
def test_who_leaves_a_column_out_is_told_which_there_are(extra: object, got: str) -> None:
    output = ActionOutput(np.zeros((ROWS, 2), np.float32), OBS[:, 0], None, extra)  # type: ignore[arg-type]
    columns = [Column("sure", (), "float32", writer="policy")]
    acts = CheckedPolicy(Answers(output), FieldSpec("action", (2,), "float32"), BOX, 0, columns)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=f"columns\\(\\) of the algorithm says: sure; got {got}"):
        acts.act(OBS, noise=OBS, explore=True)


def test_actions_reach_the_environment_in_the_dtype_of_its_space() -> None:
    """A float64 action steps a simulator a little differently, and is not what is stored."""
    third = np.full((ROWS, 2), 1 / 3)
    assert answer(third).action.dtype == np.float32
    taken = policy(Answers(None, third)).environment_action(third)
    assert taken.dtype == np.float32
    np.testing.assert_array_equal(taken, np.float32(1 / 3))


@pytest.mark.parametrize(
    ("action", "got"),
    [
        (np.zeros((1, 2), np.float32), r"shape \(1, 2\) of float32"),
        (np.zeros((ROWS, 1), np.float32), r"shape \(3, 1\) of float32"),
        (np.zeros((ROWS, 2), np.complex64), "complex64"),
        ([[0.0, 0.0]] * ROWS, "list"),
    ],
)
def test_actions_that_do_not_fit_are_refused(action: object, got: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"`action` of shape \(3, 2\) and .*float32; got .*{got}"
    ):
        answer(action)
    with pytest.raises(ConfigError, match=rf"environment_action .*\(3, 2\).*; got .*{got}"):
        policy(Answers(None, action)).environment_action(OBS)


def test_a_choice_is_no_float() -> None:
    stored, space = FieldSpec("action", (), "int64"), SpaceSpec("discrete", (), "int64", n=2)
    half = ActionOutput(np.full(ROWS, 0.5), np.zeros(ROWS, np.float32))
    with pytest.raises(ConfigError, match=r"dtype int64; got shape \(3,\) of float64"):
        CheckedPolicy(Answers(half), stored, space, 0).act(OBS, noise=OBS, explore=True)  # type: ignore[arg-type]


def test_other_answers_that_do_not_fit_are_refused() -> None:
    action = np.zeros((ROWS, 2), np.float32)
    with pytest.raises(ConfigError, match=r"must return a .*ActionOutput; got shape \(3, 2\)"):
        checked(action)
    with pytest.raises(ConfigError, match=r"`behaviour_log_prob` of shape \(3,\)"):
        answer(action, np.zeros((ROWS, 1), np.float32))
    with pytest.raises(ConfigError, match=r"`state` of shape \(3, 5\).*got None"):
        answer(action, state_size=5)


def test_parts_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"make_policy .*got None.* lacks load, act"):
        make_policy(plan(None).blueprint, CARTPOLE, PolicySetup())
    with pytest.raises(ConfigError, match=r"make_algorithm .*lacks update, policy_parameters"):
        make_learner(plan(Answers(None)))


def test_several_optimizers_need_an_update_in_two_halves() -> None:
    learner = SimpleNamespace(
        **dict.fromkeys(("update", "policy_parameters", "state_dict", "load_state_dict"), len)
    )
    assert make_learner(plan(cast(Answers, learner))) is learner
    several = plan(cast(Answers, learner))
    several.optimizers, several.learner_setup = 2, LearnerSetup(0, 1, 1, 1)  # type: ignore[misc]
    with pytest.raises(ConfigError, match=r"which lacks gradient, apply, hand_over, shared_state"):
        make_learner(several)


def test_numpy_and_torch_numbers_are_metrics() -> None:
    torch = pytest.importorskip("torch")
    metrics = {"a": np.float32(0.5), "b": torch.tensor(2.0), "c": np.ones(()), "d": 3}
    report = checked_report(UpdateReport(np.int64(1), 0, metrics))  # type: ignore[arg-type]
    assert report.metrics == {"a": 0.5, "b": 2.0, "c": 1.0, "d": 3.0}
    assert {type(value) for value in report.metrics.values()} == {float}
    assert type(report.updates) is int


@pytest.mark.parametrize("value", ["1.0", None, np.zeros(3), {"a": 1.0}])
def test_other_metrics_are_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match="metrics that are single numbers; got 'loss' as"):
        checked_report(UpdateReport(1, 0, {"loss": value}))  # type: ignore[dict-item]


@pytest.mark.parametrize("value", [None, -1, 1.0, True])
def test_reports_without_counts_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=rf"`skipped` as an integer of at least 0; got {value}"):
        checked_report(UpdateReport(1, value))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"must return a .*UpdateReport; got None"):
        checked_report(None)  # type: ignore[arg-type]


def test_columns_of_what_was_not_drawn_from_replay_are_refused() -> None:
    """They would be written nowhere."""
    report = UpdateReport(1, 0, extra={"sure": OBS})
    assert checked_report(report).extra == {"sure": OBS}
    with pytest.raises(ConfigError, match=r"`extra` of batches from replay alone.*; got sure"):
        checked_report(report, replayed=False)
