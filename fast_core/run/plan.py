"""The plan of a run: everything a node must know, fixed before the first node starts.

The plan is made once by the launcher and handed to every node. A run consists of parts, which say
which nodes and which shared memory they bring. Memory is laid out from the plan alone, so every
process computes the same offsets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from fast_core.algorithm import Backend, Blueprint, LearnerSetup, PolicySetup, ReplaySpec
from fast_core.algorithm.spec import EnvironmentSpec
from fast_core.config import AlgorithmConfig, RunConfig, Values
from fast_core.memory import Structure
from fast_core.run.names import METRICS, Names, Role
from fast_core.scheduler import FlowSettings
from fast_core.scheduler.ledger import balanced_blocks

QUICKLY_S = 1.0  # of an environment that is made in so long its limit takes no account


@dataclass(frozen=True)
class Learner:
    """What is a learner's own, in a run that may have several; all else they share.

    Attributes:
        key: Tells it from the others; empty for the first one.
        seed: What its random numbers and those of its environments are drawn from.
        shards: Those that are collected for it; within, they are seeded from 0.
        algorithm: Its configuration.
    """

    key: str
    seed: int
    shards: range
    algorithm: AlgorithmConfig


@dataclass(frozen=True)
class Part:
    """What one purpose of a run brings: the nodes for it, and their shared memory.

    Attributes:
        key: Tells the part from others; empty for FastLoop's own, of which a run has one each but
            for those that learn.
        settings: What the configuration says to one of the user's.
    """

    key: str = ""
    settings: Values = field(default_factory=dict)

    def roles(self, config: RunConfig) -> Iterable[Role]:
        """Its nodes, which are known before the environment is."""
        return ()

    def learner(self, config: RunConfig) -> Learner | None:
        """The learner that it brings, if it does."""
        return None

    def structures(self, plan: RunPlan) -> Iterable[Structure]:
        """Its shared memory, in the order of the places there."""
        return ()

    def flow(self, plan: RunPlan) -> FlowSettings | None:
        """What its learner gets to train on, and what a ticket grants; None without a learner."""
        return None

    def private_nbytes(self, plan: RunPlan) -> int:
        """What its nodes take beside that and that grows with the configuration."""
        return 0

    def identity(self, config: RunConfig) -> Mapping[str, object]:
        """Values by key that must be equal for one run to continue from another's checkpoint."""
        return {}

    def check(self, plan: RunPlan) -> None:
        """Check that what it needs of the rest is there.

        Raises:
            ConfigError: It is not; names the key.
        """


@dataclass(frozen=True)
class RunPlan:
    """What every node of a run is given.

    Attributes:
        config: The resolved configuration.
        environment: What the probe found out about the environment.
        run_directory: Absolute path of the run directory.
        parts: What the run consists of (`fast_core.run.parts`).
        backend: Library of the policy's forward pass.
        checkpoint: Directory of the checkpoint to continue from, or None.
        continued_env_steps: Environment steps at which this run directory's metrics go on, None
            where they begin.
        own: Shared memory that the user's nodes add.
        changed: What is not as the configuration says, by key, because callbacks have changed it.
        made_s: How long an environment took to be made and reset where nothing else was.
        follows: Recorded part of a run that this one does again, None for a run of its own.
        kept: Whether the run directory is there when the run has ended.
        places: The host of each node that is not on the launcher's.
        held: Names of the structures that this host has; None for all of them.
        whole: The plan of the run, where this is that of one of its learners (`of`).
        key: Which one.
    """

    config: RunConfig
    environment: EnvironmentSpec
    run_directory: str
    parts: tuple[Part, ...]
    backend: Backend
    checkpoint: str | None = None
    continued_env_steps: int | None = None
    own: tuple[Structure, ...] = ()
    changed: Values = field(default_factory=dict)
    made_s: float = 0.0
    follows: str | None = None
    kept: bool = True
    places: Mapping[str, str] = field(default_factory=dict)
    held: frozenset[str] | None = None
    whole: RunPlan | None = None
    key: str = ""

    @cached_property
    def learners(self) -> dict[str, Learner]:
        """The learners of the run by key, in the order of their shards."""
        if self.whole is not None:
            return self.whole.learners
        brought = [part.learner(self.config) for part in self.parts]
        return {learner.key: learner for learner in brought if learner is not None}

    def of(self, key: str) -> RunPlan:
        """The plan of the run that a learner would be by itself, in the memory of this one."""
        if self.whole is not None or len(self.learners) == 1:
            return self
        learner, config = self.learners[key], self.config
        rollout = msgspec.structs.replace(config.rollout, shards=len(learner.shards))
        own = msgspec.structs.replace(
            config, seed=learner.seed, algorithm=learner.algorithm, rollout=rollout
        )
        return replace(self, config=own, whole=self, key=key)

    def of_node(self, name: str) -> RunPlan:
        """The plan that a node goes by: of the learner that it works for, or of the run."""
        role = self.roles.get(name)
        return self if role is None or role.learner is None else self.of(role.learner)

    def of_shard(self, shard: int) -> RunPlan:
        """The plan of the learner that a shard is collected for."""
        if len(self.learners) == 1:
            return self
        return next(self.of(key) for key, one in self.learners.items() if shard in one.shards)

    @property
    def shards(self) -> range:
        """The shards that this plan is about."""
        if self.whole is None:
            return range(self.config.rollout.shards)
        return self.learners[self.key].shards

    @cached_property
    def roles(self) -> dict[str, Role]:
        """All nodes by their names, those that may come too."""
        if self.whole is not None:
            return self.whole.roles
        roles = (role for part in self.parts for role in part.roles(self.config))
        where = self.places
        return {r.name: r._replace(place=where.get(r.name, r.place)) for r in roles}

    @cached_property
    def names(self) -> Names:
        """The names of all nodes."""
        return Names.of(self.roles.values())

    @property
    def begins_with(self) -> tuple[Role, ...]:
        """The nodes that the run begins with, in the order of `names`."""
        return tuple(self.roles[name] for name in self.names.all)

    @property
    def blueprint(self) -> Blueprint:
        """The algorithm's torch-free description."""
        return self.config.algorithm

    @property
    def learner_setup(self) -> LearnerSetup:
        """What the learner is built with."""
        return self.config.learner_setup

    def policy_setup(self, device: str = "cpu") -> PolicySetup:
        """What a policy is built with; it acts on the CPU except in policy nodes."""
        return PolicySetup(self.backend, device, self.config.policy.precision)

    @property
    def first_shards(self) -> list[range]:
        """The shards that each env node executes when training begins, as the scheduler has it."""
        return balanced_blocks(self.config.rollout.shards, len(self.names.env))

    @property
    def groups(self) -> int:
        """Parts of a shard that take turns; one where the policy acts beside them."""
        envs = self.config.rollout.envs_per_shard
        return min(self.config.policy.groups, envs) if self.names.policy else 1

    def group_envs(self, group: int) -> range:
        """The environments of one group of any shard; sizes differ by at most one."""
        envs = self.config.rollout.envs_per_shard
        return range(group * envs // self.groups, (group + 1) * envs // self.groups)

    @property
    def saves(self) -> bool:
        """Whether the run writes checkpoints."""
        checkpoint = self.config.checkpoint
        return checkpoint.every_updates is not None or checkpoint.at_end

    @property
    def keeps_actions(self) -> bool:
        """Whether open episodes are to be stepped again when the run is resumed."""
        return self.environment.repeatable and self.config.checkpoint.exact != "never"

    @property
    def start_timeout_s(self) -> float:
        """How long nodes may take to be ready, with time for environments that are slow to make.

        That is twice what making those of one node should take, as other nodes make theirs then.
        """
        limit_s, rollout = self.config.supervision.start_timeout_s, self.config.rollout
        if self.made_s < QUICKLY_S:
            return limit_s
        shards = math.ceil(rollout.shards / len(self.names.env))
        evaluation = self.config.evaluation
        # the evaluator makes those of each of its environments before it is ready
        stages = 1 + len(evaluation.environments) if self.names.evaluator else 0
        most = max(shards * rollout.envs_per_shard, stages * evaluation.envs)
        return limit_s + 2 * self.made_s * most

    def grace_s(self, node: str) -> float:
        """How long ``node`` may take from being asked to stop until it has."""
        config = self.config
        ends_sinks = node == METRICS and bool(config.metrics.used_sinks)
        # once more for those that still start, see `fast_core.monitor.sinks.end_all`
        return config.supervision.grace_s + 2 * config.metrics.end_timeout_s * ends_sinks

    def settings_of(self, node: str) -> Values:
        """What the configuration says to a user's node, or to its part."""
        return self.roles[node].settings

    # --- learning from replay ------------------------------------------------------------------

    @property
    def replays(self) -> bool:
        """Whether the run learns from replay."""
        return self.config.replays

    @property
    def saves_replay(self) -> bool:
        """Whether checkpoints hold what the replay does."""
        return self.replays and self.saves and self.config.checkpoint.replay

    @property
    def keeps_replay(self) -> bool:
        """Whether a replay node that dies is to have a successor that goes on where it was."""
        return self.replays and self.config.supervision.restarts.replay > 0

    @property
    def optimizers(self) -> int:
        """Number of optimizers."""
        return self.config.nodes.optimizer.count

    @property
    def averages(self) -> bool:
        """Whether several optimizers take every step together."""
        return self.optimizers > 1 and self.config.nodes.optimizer.update == "allreduce"

    @property
    def shares_async(self) -> bool:
        """Whether the first of several optimizers applies their gradients as they come."""
        return self.optimizers > 1 and not self.averages

    @property
    def replay_spec(self) -> ReplaySpec:
        """What one optimizer step draws."""
        return self.blueprint.replay()
