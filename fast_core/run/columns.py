"""The columns of experience, each declared once; what is stored, asked and answered follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from fast_core.algorithm import ReplayBatch, SequenceBatch, ShardRollout
from fast_core.algorithm.spec import Column, FieldSpec, as_dtype, written_by
from fast_core.errors import ConfigError
from fast_core.memory import batch_columns
from fast_core.run.plan import RunPlan

Fields = tuple[FieldSpec, ...]

WRITERS = ("environment", "policy", "learner")


def rollout_fields(plan: RunPlan) -> tuple[Column, ...]:
    """The columns of a rollout, as `fast_core.algorithm.ShardRollout` has them.

    Those that the algorithm declares come last.
    """
    return (*_usual(plan), *collected_columns(plan))


def collected_columns(plan: RunPlan) -> tuple[Column, ...]:
    """The columns that the algorithm declares and env nodes write."""
    declared = plan.blueprint.columns(plan.environment)
    return tuple(column for column in declared if column.writer != "learner")


def _usual(plan: RunPlan) -> tuple[Column, ...]:
    environment, blueprint = plan.environment, plan.blueprint
    row, frames = environment.row, environment.frames
    action, size = blueprint.action_field(environment), blueprint.state_size(environment)
    age = Column("frame_age", (), "uint8", axes="T+1", logged=False)
    kept = plan.replays and plan.replay_spec.keeps_state
    state = Column(
        "state",
        (size,),
        "float32",
        axes="T" if kept else "rollout",
        writer="policy",
        fold="entry",
        logged=kept,
    )
    return (
        Column("obs", row.shape, row.dtype, axes="T+1", history=frames - 1),
        Column(action.name, action.shape, action.dtype, writer="policy"),
        Column("behaviour_log_prob", (), "float32", writer="policy", logged=False),
        Column("reward", (), "float32", fold="sum"),
        Column("terminated", (), "bool", logged=False),
        Column("truncated", (), "bool", logged=False),
        Column("quarantined", (), "bool", logged=False),
        Column("final_obs", row.shape, row.dtype, logged=False),
        Column("policy_version", (), "int64", logged=False),
        *((age,) if frames > 1 else ()),
        *((state,) if size else ()),
    )


def replay_columns(plan: RunPlan) -> tuple[Column, ...]:
    """The columns of a replay log."""
    return tuple(column for column in rollout_fields(plan) if column.logged)


def batch_fields(plan: RunPlan) -> Fields:
    """The columns of a batch slot, as `fast_core.memory.ReplayArrays` has them."""
    logged, sequence = replay_columns(plan), plan.replay_spec.sequence
    drawn, said = batch_columns(logged, plan.environment.frames, sequence), _said(plan)
    written = FieldSpec("written", _many(plan), "int64", "rollout")
    return (*drawn, written, *said) if said else drawn


def later_columns(plan: RunPlan) -> tuple[Column, ...]:
    """The columns that the learner writes."""
    return written_by("learner", plan.blueprint.columns(plan.environment))


def _many(plan: RunPlan) -> tuple[int, ...]:
    """How many rows each of a batch has: none of its own where it is one."""
    sequence = plan.replay_spec.sequence
    return () if sequence is None else (sequence.length,)


def _said(plan: RunPlan) -> Fields:
    """What the learner says of all rows of a batch."""
    many = _many(plan)
    return tuple(
        FieldSpec(each.name, (*many, *each.shape), each.dtype, "rollout")
        for each in later_columns(plan)
    )


def _answered(plan: RunPlan) -> Fields:
    """The same, with which rows of sequences there are."""
    said, many = _said(plan), _many(plan)
    return (*said, FieldSpec("mask", many, "bool", "rollout")) if said and many else said


def result_fields(plan: RunPlan) -> Fields:
    """What an optimizer answers to a batch: the absolute errors of its rows, and what it says."""
    return (FieldSpec("priority", (), "float32", "rollout"), *_answered(plan))


def carried_fields(plan: RunPlan) -> Fields:
    """An answer that a checkpoint holds, and that is not applied yet when the run begins."""
    return (
        FieldSpec("log", (), "int32", "rollout"),
        FieldSpec("row", (), "int64", "rollout"),
        FieldSpec("error", (), "float32", "rollout"),
        *_answered(plan),
    )


def request_fields(plan: RunPlan) -> Fields:
    """The columns of what a group of environments asks a policy node with."""
    seen, noise = plan.environment.observation, plan.blueprint.noise(plan.environment)
    return (
        FieldSpec("obs", seen.shape, seen.dtype, "rollout"),
        FieldSpec("noise", noise.shape, "float32", "rollout"),
        *(column for column in _usual(plan) if column.name == "state"),
    )


def reply_fields(plan: RunPlan) -> Fields:
    """The columns of what a policy node answers: all that policies write, and what is taken.

    ``environment_action`` is what the environments take, so that env nodes need no policy.
    """
    taken = plan.environment.action
    action, log_prob, *others = written_by("policy", rollout_fields(plan))
    environment_action = FieldSpec("environment_action", taken.shape, taken.dtype, "rollout")
    return (action, log_prob, environment_action, *others)


def check_columns(plan: RunPlan) -> None:
    """Look at the columns that the algorithm declares.

    Raises:
        ConfigError: One can't be stored as it is declared.
    """
    declared: object = plan.blueprint.columns(plan.environment)
    wrong = "a tuple of fast_core.algorithm.spec.Column"
    if isinstance(declared, tuple) and all(isinstance(each, Column) for each in declared):
        taken = [
            each.name
            for kind in (ShardRollout, ReplayBatch, SequenceBatch)
            for each in fields(kind)
        ]
        taken += ["environment_action", "log", "row", "error", "priority", "owner", "version"]
        taken += [each.name for each in declared]
        wrong = next(filter(None, (_wrong(plan, each, taken) for each in declared)), "")
    if wrong:
        raise ConfigError(
            f"algorithm.name {plan.config.algorithm.name!r}: columns() must return {wrong}; got "
            f"{declared!r}"
        )


def _wrong(plan: RunPlan, column: Column, taken: Sequence[str]) -> str:
    """What must be otherwise about a declared column, in words; empty if nothing."""
    try:
        numbers = as_dtype(column.dtype).kind in "fiub"
    except TypeError:
        numbers = False
    what = f"column {column.name!r} with"
    if taken.count(column.name) > 1:
        return f"{what} a name that no other column has"
    if column.writer not in WRITERS:
        return f"{what} one of the writers {', '.join(map(repr, WRITERS))}"
    if column.axes != "T" or column.history or not column.logged:
        return f"{what} a value for each step: axes, history and logged as they are by default"
    if not numbers:
        return f"{what} the dtype of a number, such as 'float32'"
    if column.writer == "policy" and (kind := _does_not_write(plan, column)):
        return (
            f"{what} the writer 'policy' only beside a make_policy of your own, whose policy "
            f"answers it in ActionOutput.extra; that of {kind} does not"
        )
    if column.writer == "learner" and (not plan.replays or column.fold != "first"):
        return f"{what} the writer 'learner' only from replay, and not to be summed"
    if column.fold == "sum" and column.dtype != "float32":
        return f"{what} the dtype 'float32', to be summed"
    return ""


def _does_not_write(plan: RunPlan, column: Column) -> str:
    """Which class of FastLoop's makes the policies, if they know nothing of this column."""
    kinds = type(plan.blueprint).__mro__
    kind: Any = next(each for each in kinds if "make_policy" in vars(each))
    if not kind.__module__.startswith("fast_core."):
        return ""
    known = [each.name for each in kind.columns(plan.blueprint, plan.environment)]
    return "" if column.name in known else str(kind.__name__)
