"""What FastLoop adds to a GOPS trainer's keyword arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fast_core.integrations.coordinator import AUTO
from fast_core.integrations.options import (
    check_flag,
    check_least,
    check_limit,
    read_written_degree,
)

SERIAL = ("off_serial_trainer", "on_serial_trainer")
PARALLEL = ("off_async_trainer", "off_sync_trainer", "on_sync_trainer")
# Those of which several algorithms compute gradients, and that which averages them.
GRADIENTS = ("off_async_trainer", "off_sync_trainer")
AVERAGES = ("off_sync_trainer",)
# Of trainers that are asynchronous with GOPS too; elsewhere nothing is ahead unless asked for.
_AHEAD = ("off_async_trainer", "off_sync_trainer")
# A round's hand-over costs its learner about as much as a small update.
_ROWS_OF_ROUND = 32


@dataclass(frozen=True, kw_only=True)
class Options:
    """Further keyword arguments of a trainer, or of `install` for all of them.

    Attributes:
        off_policy_degree: Rounds of samples that may be ahead of training; -1 or "auto" lets the
            run choose. None: 1 for trainers that are asynchronous in GOPS, else 0.
        num_samplers: Of each round; scripts of parallel trainers say it themselves. None: 1.
        enable_async_eval: Whether training goes on while an evaluation runs, as in GOPS.
        data_queue_size: Rounds of one sampler that may wait to be trained on.
        samples_per_round: Calls of a sampler's `sample` that make a round. None: one at degree 0,
            else as many as come to 32 steps.
        max_gradient_staleness: Of off_async_trainer with several algorithms (num_algs): steps that
            may be committed between the weights of a gradient and its own step. None: one less than
            there are algorithms.
        fused_optimizers: Whether Adam's steps are taken by PyTorch's fused kernel: the same
            mathematics with other rounding, in a third of the time where networks are small.
        work_timeout_s: Longest that one round, evaluation or start may take; None for no limit.
    """

    off_policy_degree: int | Literal["auto"] | None = None
    num_samplers: int | None = None
    enable_async_eval: bool = True
    data_queue_size: int = 10
    samples_per_round: int | None = None
    max_gradient_staleness: int | None = None
    fused_optimizers: bool = False
    work_timeout_s: float | None = 600.0

    def updated(self, given: Mapping[str, Any]) -> Options:
        """These, where ``given`` has no others.

        Raises:
            ConfigError: A value is of the wrong kind.
        """
        names = {field.name for field in dataclasses.fields(self)}
        changes = {name: given[name] for name in sorted(names & given.keys())}
        if changes.get("off_policy_degree") is not None:
            changes["off_policy_degree"] = read_written_degree(
                "off_policy_degree", changes["off_policy_degree"]
            )
        for name in ("samples_per_round", "num_samplers"):
            if changes.get(name) is not None:
                check_least((name, changes[name], 1))
        if changes.get("max_gradient_staleness") is not None:
            check_least(("max_gradient_staleness", changes["max_gradient_staleness"], 0))
        options = dataclasses.replace(self, **changes)
        check_least(("data_queue_size", options.data_queue_size, 1))
        check_flag("enable_async_eval", options.enable_async_eval)
        check_flag("fused_optimizers", options.fused_optimizers)
        check_limit("work_timeout_s", options.work_timeout_s)
        return options

    def degree(self, trainer: str) -> int:
        """What is in force for a trainer; -1 lets the run choose."""
        if self.off_policy_degree is None:
            return 1 if trainer in _AHEAD else 0
        return AUTO if self.off_policy_degree == "auto" else self.off_policy_degree

    def samples(self, degree: int, sample_batch_size: int) -> int:
        """Calls of `sample` that make a round."""
        if self.samples_per_round is not None:
            return self.samples_per_round
        return 1 if degree == 0 else max(_ROWS_OF_ROUND // sample_batch_size, 1)

    def is_inline(self, trainer: str) -> bool:
        """Whether all but the evaluator is in one process: nothing could happen side by side."""
        return self.degree(trainer) == 0 and (self.num_samplers or 1) == 1
