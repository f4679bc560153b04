"""The parts of a run. What a run has is decided in `parts_of`; all else is read from its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import msgspec

from fast_core.config import PAGE, RunConfig
from fast_core.errors import ConfigError
from fast_core.memory import PriorityTree, Structure
from fast_core.run.columns import check_columns
from fast_core.run.names import Names, Role
from fast_core.run.own_parts import own_parts
from fast_core.run.plan import Learner, Part, RunPlan
from fast_core.run.replay_rules import check_optimizers, check_replay
from fast_core.run.structures import (
    of_evaluation,
    of_learning,
    of_optimizers,
    of_replay,
    of_shards,
    of_tiles,
    rows_per_log,
)
from fast_core.scheduler import FlowSettings

ENV = "fast_core.nodes.collect.env:EnvNode"
POLICY = "fast_core.nodes.act.policy:PolicyNode"
REPLAY = "fast_core.nodes.replay.node:ReplayNode"
OPTIMIZER = "fast_core.nodes.learn.optimizer:OptimizerNode"
REPLAY_OPTIMIZER = "fast_core.nodes.learn.replay_optimizer:ReplayOptimizerNode"
EVALUATOR = "fast_core.nodes.act.evaluator:EvaluatorNode"
METRICS = "fast_core.nodes.metrics:MetricsNode"
COPIED_BYTES = 12  # of each leaf of a priority tree, while a checkpoint is written


@dataclass(frozen=True)
class Learn(Part):
    """Optimizers learn; the first one publishes.

    Attributes:
        own: What is this learner's own; None for the only one, which is as the configuration says.
    """

    own: Learner | None = None

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The optimizers."""
        node_class = REPLAY_OPTIMIZER if config.replays else OPTIMIZER
        optimizer, deaths = config.nodes.optimizer, config.supervision.restarts.optimizer
        kind = f"optimizer-{self.key}" if self.key else "optimizer"
        for rank in range(optimizer.count):
            threads = _number(optimizer.threads)
            role = _ranked(kind, rank, node_class, threads=threads, deaths=deaths)
            yield role._replace(kind="optimizer", learner=self.key)

    def learner(self, config: RunConfig) -> Learner:
        """It."""
        shards = range(config.rollout.shards)
        return self.own or Learner(self.key, config.seed, shards, config.algorithm)

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """What is published."""
        first = next(role.name for role in self.roles(plan.config))
        return of_learning(plan.of(self.key), first)

    def flow(self, plan: RunPlan) -> FlowSettings:
        """Every ticket grants the same, or with replay what the ratio says."""
        optimizers = tuple(role.name for role in self.roles(plan.config))
        plan = plan.of(self.key)
        config, replay = plan.config, next(iter(plan.names.replay), None)
        granted = 0 if replay else plan.blueprint.updates_granted(config.rows_per_ticket)
        return FlowSettings(
            key=self.key,
            shards=config.rollout.shards,
            optimizers=optimizers,
            replay=replay,
            degree=config.degree,
            auto_degree=config.scheduler.auto,
            stragglers=config.scheduler.stragglers,
            rows_per_rollout=config.rollout.envs_per_shard * config.steps,
            updates_granted=granted,
            replay_ratio=str(config.scheduler.replay_ratio) if replay else None,
            learning_starts=config.replay.learning_starts,
            replay_kept=config.checkpoint.replay,
            stop_env_steps=config.stop.env_steps,
            stop_updates=config.stop.updates,
        )

    def check(self, plan: RunPlan) -> None:
        """What a ticket grants is a number, and several learners need nothing that is one's."""
        if len(plan.learners) > 1:
            check_learners(plan)
        plan = plan.of(self.key)
        if plan.replays:
            return
        granted: object = plan.blueprint.updates_granted(plan.config.rows_per_ticket)
        if not isinstance(granted, int) or granted < 0:
            raise ConfigError(
                f"algorithm.name {plan.config.algorithm.name!r}: updates_granted() must return the "
                f"number of optimizer steps of a ticket; got {granted!r}"
            )


class Share(Part):
    """Several optimizers share the work of learning."""

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """What they tell each other."""
        return of_optimizers(plan)

    def check(self, plan: RunPlan) -> None:
        """The algorithm can be shared."""
        check_optimizers(plan)


class Evaluate(Part):
    """Snapshots of the policy are played."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The one that plays."""
        yield _ranked("evaluator", 0, EVALUATOR, deaths=config.supervision.restarts.evaluator)

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """The snapshot."""
        return of_evaluation(plan)


@dataclass(frozen=True)
class Collect(Part):
    """Env nodes step environments; policy nodes act for them where no policy is beside them.

    Attributes:
        env_nodes: How many the run begins with.
        policy_nodes: Likewise.
    """

    env_nodes: int = 1
    policy_nodes: int = 0

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """Those that it begins with, and those that may be added while it goes on.

        Each shard has one executor, and one that acts for it.
        """
        most = config.rollout.shards if scales(config) else 0
        for rank in range(max(self.env_nodes, most)):
            spare, deaths = rank >= self.env_nodes, config.supervision.env_deaths
            yield _ranked("env", rank, ENV, deaths=deaths, spare=spare)
        threads, deaths = _number(config.nodes.policy.threads), config.supervision.restarts.policy
        for rank in range(max(self.policy_nodes, most) if self.policy_nodes else 0):
            spare = rank >= self.policy_nodes
            yield _ranked("policy", rank, POLICY, threads=threads, deaths=deaths, spare=spare)

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """Where experience goes, and what is asked for it."""
        for key in plan.learners:
            yield from of_shards(plan.of(key))

    def check(self, plan: RunPlan) -> None:
        """What is declared of a step can be stored."""
        check_columns(plan)

    def identity(self, config: RunConfig) -> dict[str, object]:
        """How much a ticket collects, unless it is not known yet."""
        rollout = config.rollout
        if rollout.steps == "auto" and config.replays:
            return {}
        return {"rollout": msgspec.structs.replace(rollout, steps=config.steps)}


class Replay(Part):
    """A node draws batches from what was collected."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The one that draws."""
        yield _ranked("replay", 0, REPLAY, deaths=config.supervision.restarts.replay)

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """What it exchanges with the optimizers."""
        return of_replay(plan)

    def private_nbytes(self, plan: RunPlan) -> int:
        """The priorities' sums, and their leaves unless they are to outlive the node."""
        if not plan.config.replay.prioritized:
            return 0
        leaves = rows_per_log(plan) * plan.config.envs
        copied = COPIED_BYTES * leaves if plan.saves_replay else 0
        shared = COPIED_BYTES * leaves if plan.keeps_replay else 0
        return PriorityTree.nbytes(leaves) - shared + copied

    def identity(self, config: RunConfig) -> dict[str, object]:
        """What is kept of what was collected."""
        replay = config.replay
        return {"replay.capacity": replay.capacity, "replay.prioritized": replay.prioritized}

    def check(self, plan: RunPlan) -> None:
        """It can be drawn from."""
        check_replay(plan)


class Write(Part):
    """Metrics are written."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The one that writes."""
        yield _ranked("metrics", 0, METRICS)


class Added(Part):
    """The nodes of ``nodes.extra``; their structures are in the plan."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """One for each entry."""
        for extra in config.nodes.extra:
            yield Role(extra.node_name, extra.node, settings=extra.settings)

    def identity(self, config: RunConfig) -> dict[str, object]:
        """All of them, and the user's parts."""
        return {"nodes.extra": config.nodes.extra, "nodes.parts": config.nodes.parts}


class Watch(Part):
    """Environments can be watched, on the page if it is served."""

    def roles(self, config: RunConfig) -> Iterator[Role]:
        """The page."""
        if config.dashboard.enabled:
            yield Role(PAGE.node_name, PAGE.node)

    def structures(self, plan: RunPlan) -> Iterator[Structure]:
        """What is shown."""
        return of_tiles(plan)


def check_learners(plan: RunPlan) -> None:
    """Check that all that a run of several learners has can serve several.

    Raises:
        ConfigError: Something is there for the first one alone.
    """
    config = plan.config
    needs = {
        "nodes.optimizer.count=1": plan.optimizers == 1,
        "policy.placement=env": not plan.names.policy,
        "diagnostics.schedule=false": not config.diagnostics.schedule,
        "dashboard.enabled=false": not config.dashboard.enabled,
        "an algorithm that learns from rollouts": not plan.replays,
    }
    if missing := [need for need, met in needs.items() if not met]:
        keys = ", ".join(map(repr, plan.learners))
        raise ConfigError(f"a run with the learners {keys} needs {', '.join(missing)}")
    covered = [shard for learner in plan.learners.values() for shard in learner.shards]
    if covered != [*range(config.rollout.shards)]:
        raise ConfigError(
            f"the learners of a run must divide its {config.rollout.shards} shards "
            f"(rollout.shards) among them, in order; got {covered}"
        )


def learns_of(config: RunConfig) -> tuple[Learn, ...]:
    """The learners of a run of ``config``; no key of it asks for several yet."""
    return (Learn(),)


def parts_of(
    config: RunConfig, env_nodes: int, policy_nodes: int | None = None
) -> tuple[Part, ...]:
    """What a run of ``config`` consists of, in the order of places in its memory.

    Args:
        config: Of the run, resolved or not.
        env_nodes: How many it begins with.
        policy_nodes: Likewise; None for what the configuration says.
    """
    if policy_nodes is None:
        policy_nodes = config.nodes.policy.count if config.policy.placement == "node" else 0
    evaluates = config.evaluation.every_env_steps is not None
    return (
        *learns_of(config),
        *([Evaluate()] if evaluates else ()),
        Collect(env_nodes=env_nodes, policy_nodes=policy_nodes),
        *([Replay()] if config.replays else ()),
        *([Share()] if config.nodes.optimizer.count > 1 else ()),
        Write(),
        Added(),
        *own_parts(config),
        Watch(),
    )


def roles_of(config: RunConfig, env_nodes: int, policy_nodes: int | None = None) -> dict[str, Role]:
    """The nodes of a run of ``config`` by name, before there is a plan; see `parts_of`."""
    parts = parts_of(config, env_nodes, policy_nodes)
    return {role.name: role for part in parts for role in part.roles(config)}


def names_of(config: RunConfig) -> Names:
    """The names in a run of ``config`` but for its env nodes, whose number is not known yet."""
    return Names.of(roles_of(config, 0).values())


def scales(config: RunConfig) -> bool:
    """Whether nodes may come or go while the run goes on.

    Inline there is one process, and a schedule that is recorded is run again inline.
    """
    return config.mode == "process" and not config.diagnostics.schedule


def _number(threads: int | Literal["auto"]) -> int:
    return 0 if threads == "auto" else threads


def _ranked(
    kind: str, rank: int, node_class: str, *, threads: int = 0, deaths: int = 0, spare: bool = False
) -> Role:
    name = f"{kind}-{rank}"
    return Role(name, node_class, kind, rank, threads=threads, deaths=deaths, spare=spare)
