"""What every algorithm keeps: configuration, policy, learner (`fast_core.algorithm`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec
import numpy as np

from fast_core.algorithm import (
    Algorithm,
    Changeable,
    Insightful,
    LearnerSetup,
    PolicySetup,
    ReplayBatch,
    RolloutBatch,
    SequenceBatch,
    UpdateReport,
)
from fast_core.algorithm.parameters import ParameterPack
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig, EnvironmentConfig, RunConfig, StopConfig
from fast_core.config import file as config_file
from fast_core.config.algorithms import algorithm_config_type
from fast_core.errors import ConfigError, ContractBroken
from fast_core.nodes.learn.contract import LEARNER, checked_report, queueing
from fast_core.policy.checked import CheckedPolicy, check_methods, make_policy
from fast_core.system.state_file import pack, unpack
from fast_core.system.threads import set_threads, threads_kept
from fast_core.testing.acting import Acting
from fast_core.testing.samples import SMALL, arrays_of, replayed, rollouts
from fast_core.testing.shared_algorithm import check_shared, differing

Batch = RolloutBatch | ReplayBatch | SequenceBatch
PATIENCE_S = 30
SETUP = LearnerSetup(seed=0, shards=2, envs_per_shard=4, steps=64)


def check_algorithm(
    algorithm: AlgorithmConfig | type[AlgorithmConfig] | str,
    *environments: EnvironmentSpec,
    setup: LearnerSetup = SETUP,
) -> None:
    """Check an algorithm as a run meets it, with random data.

    Its configuration is found by its name and comes back from YAML; its policy acts on any number
    of rows, each for itself, in the same way twice, within the action space and its mask, with the
    parameters that its learner publishes; its learner takes the same steps twice under a seed, on
    rows of older policies too, and goes on from its saved state as if it had never stopped; steps
    that it begins and finishes apart (`Queueing`) are whole updates; if several optimizers can
    share a step, they stay equal.

    Args:
        algorithm: A configuration, its type with its defaults, or what `algorithm.name` takes.
        environments: What it is tried in; by default those of three small ones (choices, a box,
            choices with a mask) that its `check` does not refuse.
        setup: Sizes of a round.

    Raises:
        ContractBroken: It does not keep one of these.
        ConfigError: What a run would refuse.
    """
    config = _config_of(algorithm)
    refused = []
    for environment in environments or SMALL:
        try:
            seen = config.examine(environment)
            ready = config.resolved(seen)
            ready.check(seen, setup)
        except ConfigError as error:
            if environments:
                raise
            refused.append(f"{environment.id}: {error}")
        else:
            with threads_kept():
                _Check(ready, seen, setup).run()
    if len(refused) == len(SMALL):
        raise ContractBroken(
            f"{config.name} refuses every environment that it is tried in: {' '.join(refused)} "
            "Give check_algorithm an EnvironmentSpec that it learns in."
        )


def _config_of(algorithm: AlgorithmConfig | type[AlgorithmConfig] | str) -> AlgorithmConfig:
    """The configuration, as it comes back from a run's file."""
    if isinstance(algorithm, str):
        kind, name = algorithm_config_type(algorithm), algorithm
    else:
        kind = algorithm if isinstance(algorithm, type) else type(algorithm)
        name = f"{kind.__module__}:{kind.__qualname__}"
    if (found := algorithm_config_type(name)) is not kind:
        raise ContractBroken(
            f"{name!r} must name {kind!r}; it is {found!r}. Define it at the top of a module."
        )
    if isinstance(algorithm, AlgorithmConfig):
        made = msgspec.structs.replace(algorithm, name=name)
    else:
        made = cast("Callable[..., AlgorithmConfig]", kind)(name=name)
    run = RunConfig(
        name="check",
        environment=EnvironmentConfig(id="none"),
        algorithm=made,
        stop=StopConfig(env_steps=1_000_000),
    )
    back: object = None
    with suppress(TypeError):  # what YAML has no word for
        text = config_file.dumps(run)
        back = config_file.loads(text, [], algorithm_config_type, source="its own YAML").algorithm
    if back != made:
        raise ContractBroken(
            f"{name} must come back equal from a run's config.yaml; got {back!r} for {made!r}. "
            "Use plain types for its keys: numbers, texts, and tuples and dicts of those."
        )
    return made


class _Check:
    def __init__(
        self, config: AlgorithmConfig, environment: EnvironmentSpec, setup: LearnerSetup
    ) -> None:
        self._config, self._environment, self._setup = config, environment, setup
        self._replays = config.learns_from == "replay"

    def run(self) -> None:
        """Everything, in the order in which a run meets it."""
        first = self.learner()
        policy = self.policy(first)
        acting = Acting(self._config, self._environment)
        acting.check(policy)
        batches = self.batches(policy, 5)
        self.updates(first, batches[:3])
        data = pack(first.state_dict())
        resumed = self.resumed(first, data)
        for learner in (first, resumed):
            self.updates(learner, batches[3:])
        self.same(first, resumed, "a learner that was resumed must equal one that never stopped")
        again = self.learner()
        self.updates(again, batches)
        self.same(first, again, "two learners of one seed must equal after the same batches")
        acting.check(self.policy(first))
        if self._replays and queueing(first) is not None:
            self.queued(again, batches)
        if self._config.exchanged(self._environment):
            check_shared(self._config, self._environment, self.learner, batches)

    def learner(self) -> Any:
        """A new one."""
        made = self._config.make_algorithm(self._environment, self._setup)
        check_methods(made, "make_algorithm", LEARNER)
        set_threads(1)  # as a node does; it may have imported torch
        return made

    def policy(self, learner: Algorithm) -> CheckedPolicy:
        """One with what the learner publishes, as it travels."""
        layout = ParameterPack(self._config.policy_fields(self._environment))
        flat = layout.empty()
        layout.pack(learner.policy_parameters(), flat)
        backend = self._config.policy_backend(self._environment)
        policy = make_policy(self._config, self._environment, PolicySetup(backend))
        policy.load(layout.views(flat))
        return policy

    def batches(self, policy: CheckedPolicy, count: int) -> list[Any]:
        """What the learner may be given: rows of the first policy, ever older."""
        config, environment = self._config, self._environment
        if self._replays:
            rows = config.replay().batch_size
            return [replayed(config, environment, rows, k) for k in range(count)]
        return [rollouts(config, environment, policy, self._setup, k) for k in range(count)]

    # --- the learner ---------------------------------------------------------------------------

    def updates(self, learner: Any, batches: Sequence[Any]) -> None:
        """Reports that can be sent, and nothing published where no step was taken."""
        for batch in batches:
            before = [np.array(parameter) for parameter in learner.policy_parameters()]
            arrays = arrays_of(batch)
            said, steps = learner.update(batch), 1 if self._replays else None
            report = checked_report(said, steps=steps, replayed=self._replays)
            granted = 1 if self._replays else self._config.updates_granted(self._setup.rows)
            if report.updates + report.skipped != granted:
                raise self._broken(
                    f"an update must take or skip the {granted} steps that updates_granted says "
                    f"of {self._setup.rows} rows; it took {report.updates} and skipped "
                    f"{report.skipped}",
                    "Count what was granted and not taken as `skipped`",
                )
            self._sound(report, batch)
            if arrays_of(batch) != arrays:
                raise self._broken(
                    "update must leave the arrays of its batch as they are; it changed one",
                    "Copy what you work on: they are the run's own memory",
                )
            after = learner.policy_parameters()
            if not all(np.isfinite(each).all() for each in after):
                raise self._broken(
                    "published parameters must be finite; some are not",
                    "Skip a step whose gradient is not finite, and say so in UpdateReport.skipped",
                )
            if not report.updates and any(
                not np.array_equal(b, a) for b, a in zip(before, after, strict=True)
            ):
                raise self._broken(
                    "policy_parameters may change by an update that commits a step alone, since "
                    "the version tells them apart; they changed with `updates` 0",
                    "Count the step, or keep what changed for later",
                )
        if fields := self._config.insight_fields(self._environment):
            layout = ParameterPack(fields, "insight")
            layout.pack(cast("Insightful", learner).insight_parameters(), layout.empty())

    def queued(self, whole: Algorithm, batches: Sequence[ReplayBatch]) -> None:
        """Steps that are begun, as many at a time as it takes, are the updates of ``whole``."""
        learner = self.learner()
        for start in range(0, len(batches), learner.ahead):
            begun = batches[start : start + learner.ahead]
            for batch in begun:
                learner.begin(batch)
            for batch in begun:
                self._sound(checked_report(self._finished(learner), steps=1), batch)
        self.same(whole, learner, "steps that are begun and finished must equal whole updates")

    def _finished(self, learner: Any) -> UpdateReport:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            report = learner.finished()
            if report is not None:
                return cast(UpdateReport, report)
        raise self._broken(
            f"finished must report each step that was begun; it said None for {PATIENCE_S} s",
            "Report once the device is done with it, the step that was begun first",
        )

    def _sound(self, report: UpdateReport, batch: Batch) -> None:
        bad = {name: value for name, value in report.metrics.items() if not np.isfinite(value)}
        if bad:
            raise self._broken(
                f"metrics of an update must be finite; got {bad}",
                "Leave out what has no value; a step that is not finite is skipped and counted",
            )
        error: Any = report.priority
        if error is None or isinstance(batch, RolloutBatch):
            return
        rows = (len(batch.reward),)
        if np.shape(error) != rows or error.dtype != np.float32 or not (error >= 0).all():
            raise self._broken(
                f"priority must be absolute errors of the rows, {rows} of float32 and at least 0; "
                f"got {error!r}",
                "Return None where there are none",
            )

    def resumed(self, learner: Any, data: bytes) -> Any:
        """Another one that goes on from what was saved."""
        made = self.learner()
        made.load_state_dict(unpack(data, "its state"))
        self.same(learner, made, "a learner must equal the one whose state_dict it loaded")
        if self._config.changeable:
            cast("Changeable", made).change(self._config)
            what = "change must change nothing where the settings are those that it has"
            self.same(learner, made, what)
        return made

    def same(self, first: Algorithm, second: Algorithm, what: str) -> None:
        """Two learners are equal bit for bit, in state and in what they publish."""
        states = first.state_dict(), second.state_dict()
        names = [f"state {name!r}" for name in differing(*states)]
        published = zip(first.policy_parameters(), second.policy_parameters(), strict=True)
        if not names and not all(np.array_equal(mine, theirs) for mine, theirs in published):
            names = ["policy_parameters()"]
        if names:
            raise self._broken(
                f"{what}, bit for bit; what differs: {', '.join(names)}",
                "Draw random numbers from generators of its own that LearnerSetup.seed begins, and "
                "save everything that changes: optimizer moments, counters, generators",
            )

    def _broken(self, promise: str, advice: str) -> ContractBroken:
        where = f"{self._config.name} with {self._environment.id}"
        return ContractBroken(f"{where}: {promise}. {advice}.")
