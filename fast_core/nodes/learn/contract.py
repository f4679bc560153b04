"""What a learner must return; who strays from it is named with what was got.

`fast_core.policy.checked` has the same for policies, and says why.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fast_core.algorithm import Algorithm, Queueing, UpdateReport
from fast_core.errors import ConfigError
from fast_core.nodes.learn.devices import replica_device
from fast_core.policy.checked import check_methods, form, names
from fast_core.run.plan import RunPlan

LEARNER = ("update", "policy_parameters", "state_dict", "load_state_dict")
QUEUEING = ("begin", "finished", "ahead")  # fast_core.algorithm.Queueing
SHARED = ("gradient", "apply", "hand_over", "shared_state", "networks", "adopt", "reseed")


def make_learner(plan: RunPlan, rank: int = 0) -> Algorithm:
    """Build the learner of an optimizer of a run.

    Raises:
        ConfigError: The blueprint made something else.
    """
    setup, count = plan.learner_setup, plan.optimizers
    methods: tuple[str, ...] = LEARNER
    if count > 1:
        setup = replace(setup, device=replica_device(setup.device, count, rank))
        methods = (*LEARNER, *SHARED)
    learner = plan.blueprint.make_algorithm(plan.environment, setup)
    check_methods(learner, "make_algorithm", methods)
    return learner


def queueing(learner: object) -> Queueing | None:
    """The learner, if its steps are begun and finished apart; not if `update` overrides that.

    Raises:
        ConfigError: It has but a part of what that takes.
    """
    said = [name for name in QUEUEING if hasattr(learner, name)]
    if not isinstance(learner, Queueing):
        if "finished" in said:
            check_methods(learner, "make_algorithm", QUEUEING)
        return None
    first = next(kind for kind in type(learner).__mro__ if {"update", "begin"} & vars(kind).keys())
    return learner if "begin" in vars(first) else None


def checked_report(
    report: UpdateReport, *, steps: int | None = None, replayed: bool = True
) -> UpdateReport:
    """The report of an update in plain numbers, which a message can carry.

    Args:
        report: What the algorithm returned.
        steps: How many it must have taken or skipped; None: any number.
        replayed: Whether it is of a batch from replay, whose rows have columns of the learner's.

    Raises:
        ConfigError: It is something else.
    """
    if not isinstance(report, UpdateReport):
        raise ConfigError(
            "update of the algorithm must return a fast_core.algorithm.UpdateReport; got "
            f"{form(report)}"
        )
    counts = {}
    for name in ("updates", "skipped"):
        value = getattr(report, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ConfigError(
                f"update of the algorithm must report `{name}` as an integer of at least 0; got "
                f"{value!r}"
            )
        counts[name] = int(value)
    if steps is not None and sum(counts.values()) != steps:
        raise ConfigError(
            "update of the algorithm must take or skip one step with each batch from replay; got "
            f"{counts['updates']} updates and {counts['skipped']} skipped"
        )
    if report.extra and not replayed:
        raise ConfigError(
            "update of the algorithm must report `extra` of batches from replay alone, into whose "
            f"rows it is written; got {names(report.extra)}. Report numbers as `metrics`."
        )
    metrics = {str(name): _number(name, value) for name, value in report.metrics.items()}
    return UpdateReport(
        counts["updates"], counts["skipped"], metrics, report.priority, report.extra
    )


def _number(name: str, value: object) -> float:
    try:
        if not isinstance(value, str | bytes):
            return float(value)  # type: ignore[arg-type]  # NumPy's and torch's numbers are welcome
    except (TypeError, ValueError, RuntimeError):
        pass
    raise ConfigError(
        f"update of the algorithm must report metrics that are single numbers; got {name!r} as "
        f"{form(value)}"
    )
