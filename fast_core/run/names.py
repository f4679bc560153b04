"""The names of a run's nodes: who there is, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

from fast_core.config import PAGE, RunConfig

OPTIMIZER = "optimizer-0"  # publishes, reports and is evaluated
REPLAY = "replay-0"
EVALUATOR = "evaluator-0"
METRICS = "metrics-0"
DASHBOARD = PAGE.node_name


@dataclass(frozen=True)
class Names:
    """Names by kind, each by rank; one after the other they are all nodes of the run.

    Attributes:
        env: Those that step environments.
        policy: Those that act for them; none where policies act in the env nodes.
        replay: The one that draws, where the run learns from replay.
        optimizers: Those that learn; the first is `OPTIMIZER`.
        evaluator: The one that evaluates, if any.
        metrics: The one that writes.
        extra: The user's, in the order of ``nodes.extra``, and last the page if it is served.
        spare: Env nodes that may be added while the run goes on; none of `all`.
        spare_policy: Policy nodes, likewise.
    """

    env: tuple[str, ...]
    policy: tuple[str, ...]
    replay: tuple[str, ...]
    optimizers: tuple[str, ...]
    evaluator: tuple[str, ...]
    metrics: tuple[str, ...]
    extra: tuple[str, ...]
    spare: tuple[str, ...] = ()
    spare_policy: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: RunConfig, env_nodes: int, policy_nodes: int) -> Names:
        """The names in a run of ``config`` with so many of the nodes that depend on the machine."""
        # Each shard has one executor, and one that acts for it. Inline there is one process, and a
        # schedule that is recorded is run again inline.
        scales = config.mode == "process" and not config.diagnostics.schedule
        most = config.rollout.shards if scales else 0
        return cls(
            env=_ranked("env", env_nodes),
            policy=_ranked("policy", policy_nodes),
            replay=(REPLAY,) if config.replays else (),
            optimizers=_ranked("optimizer", config.nodes.optimizer.count),
            evaluator=(EVALUATOR,) if config.evaluation.every_env_steps is not None else (),
            metrics=(METRICS,),
            extra=tuple(extra.node_name for extra in config.added_nodes),
            spare=_ranked("env", most)[env_nodes:],
            spare_policy=_ranked("policy", most if policy_nodes else 0)[policy_nodes:],
        )

    @property
    def all(self) -> tuple[str, ...]:
        """Every node that a run begins with."""
        acting = (*self.env, *self.policy, *self.replay)
        return (*acting, *self.optimizers, *self.evaluator, *self.metrics, *self.extra)

    @property
    def steppers(self) -> tuple[str, ...]:
        """Env nodes that are there or may come, by rank."""
        return (*self.env, *self.spare)

    @property
    def actors(self) -> tuple[str, ...]:
        """Policy nodes that are there or may come, by rank."""
        return (*self.policy, *self.spare_policy)

    @property
    def absent(self) -> tuple[str, ...]:
        """Nodes that a run begins without and that may come."""
        return (*self.spare, *self.spare_policy)

    @property
    def possible(self) -> tuple[str, ...]:
        """Every node that is there or may come, in the order in which they are shown."""
        others = self.all[len(self.env) + len(self.policy) :]
        return (*self.steppers, *self.actors, *others)

    def place(self, name: str) -> int:
        """What tells the random streams of a node from those of others, page or no page."""
        others = (each for each in self.all if each != DASHBOARD)
        return (*others, *self.spare, DASHBOARD, *self.spare_policy).index(name)

    def policy_of(self, shard: int) -> str:
        """The policy node that acts for ``shard`` where the run begins."""
        return self.policy[shard % len(self.policy)]


def _ranked(role: str, count: int) -> tuple[str, ...]:
    return tuple(f"{role}-{rank}" for rank in range(count))
