"""Optimizers of one run, each with batches that a test made, driven by hand in any order."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fast_core.algorithm import ReplayBatch, UpdateReport
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import (
    DiagnosticsConfig,
    EnvironmentConfig,
    NodesConfig,
    OptimizerNodeConfig,
    ReplayConfig,
    RolloutConfig,
    RunConfig,
    StopConfig,
)
from fast_core.nodes.learn.stepping import make_stepper
from fast_core.run.memory import RunMemory
from fast_core.run.plan import RunPlan
from tests.algos.replay_cases import environment_for, make_batch, make_config
from tests.closing import until_the_end
from tests.nodes.stage import make_run_plan

BATCH = 12


@dataclass
class Given:
    """Batches from a list; implements `fast_core.nodes.learn.batches.Batches`.

    Attributes:
        waiting: What is left, the open one first.
        priorities: What was said of each batch that was finished.
    """

    waiting: deque[ReplayBatch] = field(default_factory=deque)
    priorities: list[Any] = field(default_factory=list)

    def next(self, ahead: int = 0) -> ReplayBatch | None:
        """The oldest, or one so far behind it."""
        return self.waiting[ahead] if len(self.waiting) > ahead else None

    def finish(self, priority: Any, extra: Any = None) -> None:
        """Drop it; its arrays may be overwritten from here on."""
        batch = self.waiting.popleft()
        for name in ("obs", "reward", "next_obs"):
            getattr(batch, name)[...] = 1e9
        self.priorities.append(None if priority is None else np.array(priority))


def rows(batch: ReplayBatch, picked: slice) -> ReplayBatch:
    """Some rows of a batch, copied."""
    names = ("obs", "action", "reward", "discount", "next_obs", "weight")
    return replace(batch, **{name: getattr(batch, name)[picked].copy() for name in names})


def shares(batch: ReplayBatch, count: int) -> list[ReplayBatch]:
    """A batch cut into equal parts."""
    size = len(batch.reward) // count
    return [rows(batch, slice(k * size, (k + 1) * size)) for k in range(count)]


def batches(name: str, count: int, seed: int = 0) -> list[ReplayBatch]:
    """Batches for an algorithm of `tests.algos.replay_cases`."""
    environment = environment_for(name)
    return [make_batch(environment, BATCH, 1000 * seed + k) for k in range(count)]


def plan_for(
    folder: Path, name: str, count: int, update: str = "allreduce", **changes: Any
) -> RunPlan:
    """A run with so many optimizers; ``changes`` are of the optimizer or, else, the algorithm."""
    own = {k: changes.pop(k) for k in ("max_gradient_staleness", "collective") if k in changes}
    digests = changes.pop("digests", False)
    algorithm = make_config(name, **({"batch_size": BATCH} | changes))
    optimizer = OptimizerNodeConfig(count=count, update=update, threads=1, **own)
    config = RunConfig(
        name="replicas",
        environment=EnvironmentConfig(id="Test-v0"),
        rollout=RolloutConfig(shards=1, envs_per_shard=2, steps=8),
        replay=ReplayConfig(capacity=1000, learning_starts=100),
        algorithm=algorithm,
        nodes=NodesConfig(optimizer=optimizer),
        stop=StopConfig(env_steps=1000),
        diagnostics=DiagnosticsConfig(digests=digests),
    )
    spec: EnvironmentSpec = environment_for(name)
    config = msgspec.structs.replace(
        config, evaluation=msgspec.structs.replace(config.evaluation, episodes=0)
    )
    return make_run_plan(folder, config, environment=spec)


class Replicas:
    """All optimizers of a run.

    Attributes:
        plan: Of the run.
        memory: Its memory.
        learners: By rank.
        given: Their batches.
        steppers: What takes their steps.
        reports: What each returned.
    """

    def __init__(self, plan: RunPlan, states: Sequence[dict[str, Any]] = ()) -> None:
        self.plan, self.memory = plan, RunMemory.create(plan)
        until_the_end(self)
        self.learners: list[Any] = []
        self.given: list[Given] = []
        self.steppers: list[Any] = []
        self.reports: list[list[UpdateReport]] = []
        for rank in range(plan.optimizers):
            learner: Any = plan.blueprint.make_algorithm(plan.environment, plan.learner_setup)
            learner.reseed(rank)
            if states:
                learner.load_state_dict(states[rank]["algorithm"])
            given = Given()
            stepper = make_stepper(plan, self.memory, rank, learner, given)
            if states:
                stepper.load(states[rank]["stepper"])
            self.learners.append(learner)
            self.given.append(given)
            self.steppers.append(stepper)
            self.reports.append([])

    def give(self, parts: Sequence[ReplayBatch]) -> None:
        """One more batch for each."""
        for given, part in zip(self.given, parts, strict=True):
            given.waiting.append(copy.deepcopy(part))

    def advance(self, rank: int) -> bool:
        """One call of one optimizer; whether it did anything."""
        given, stepper = self.given[rank], self.steppers[rank]
        before = len(given.waiting), stepper.pending
        report = stepper.advance()
        if report is not None:
            self.reports[rank].append(report)
        return report is not None or before != (len(given.waiting), stepper.pending)

    def drain(self) -> None:
        """Advance all in turn until nobody can do anything."""
        for _ in range(100_000):
            if not sum(self.advance(rank) for rank in range(len(self.steppers))):
                return
        raise AssertionError("somebody always has something to do")

    def states(self) -> list[dict[str, Any]]:
        """What a checkpoint would hold of each."""
        return [
            {"algorithm": learner.state_dict(), "stepper": stepper.state()}
            for learner, stepper in zip(self.learners, self.steppers, strict=True)
        ]

    def close(self) -> None:
        for stepper in self.steppers:
            stepper.close()
        self.memory.close()
