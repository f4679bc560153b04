"""Who there is in a run: each node by its role, and their names by kind."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fast_core.config import PAGE, Values

OPTIMIZER = "optimizer-0"  # publishes, reports and is evaluated
REPLAY = "replay-0"
EVALUATOR = "evaluator-0"
METRICS = "metrics-0"
DASHBOARD = PAGE.node_name
KINDS = ("env", "policy", "replay", "optimizer", "evaluator", "metrics")


class Role(NamedTuple):
    """One node of a run, and what is to be known of it before it starts.

    Whether it has a part of a checkpoint, and whether the run goes on without it, its class says.

    Attributes:
        name: Unique in the run, for instance ``env-1``.
        node_class: Its class, as ``package.module:Class``.
        kind: What it is for; nodes of one kind share the deaths that the run survives. Empty for
            one of a user's, which is a kind by itself.
        rank: Index among the nodes of its kind.
        place: The host that it runs on; empty for that of the launcher.
        threads: What it computes with; 0 for what every node has.
        deaths: How many of its kind the run survives; those of nodes that it goes on without are
            counted otherwise (`fast_core.scheduler.optional`).
        spare: Whether the run begins without it.
        learner: Key of the learner that it works for alone; None for one that works for all.
        settings: What it reads its own keys from.
    """

    name: str
    node_class: str
    kind: str = ""
    rank: int = 0
    place: str = ""
    threads: int = 0
    deaths: int = 0
    spare: bool = False
    learner: str | None = None
    settings: Values = {}

    @property
    def counted_as(self) -> str:
        """What its deaths are counted together with: its kind, or by itself its name."""
        return self.kind or self.name


def deaths_key(counted: str) -> str:
    """Where it stands how many such deaths a run survives."""
    return f"supervision.restarts.{counted}" if counted in KINDS else "`deaths` of its Role"


@dataclass(frozen=True)
class Names:
    """Names by kind, each by rank; one after the other they are all nodes of the run.

    Attributes:
        env: Those that step environments.
        policy: Those that act for them; none where policies act in the env nodes.
        replay: The one that draws, where the run learns from replay.
        optimizers: Those that learn; the first is `OPTIMIZER`. Of the first learner, where there
            are several.
        evaluator: The one that evaluates, if any.
        metrics: The one that writes.
        extra: The user's, in the order of ``nodes.extra``, and last the page if it is served.
        spare: Env nodes that may be added while the run goes on; none of `all`.
        spare_policy: Policy nodes, likewise.
        others: Those that work for further learners.
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
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, roles: Iterable[Role]) -> Names:
        """The names of these roles."""
        kinds: dict[tuple[str, bool], list[str]] = {}
        others = []
        for role in roles:
            if role.learner:
                others.append(role.name)
            else:
                kinds.setdefault((role.kind, role.spare), []).append(role.name)

        def named(kind: str, *, spare: bool = False) -> tuple[str, ...]:
            return tuple(kinds.get((kind, spare), ()))

        return cls(
            env=named("env"),
            policy=named("policy"),
            replay=named("replay"),
            optimizers=named("optimizer"),
            evaluator=named("evaluator"),
            metrics=named("metrics"),
            extra=named(""),
            spare=named("env", spare=True),
            spare_policy=named("policy", spare=True),
            others=tuple(others),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """Every node that a run begins with."""
        acting = (*self.env, *self.policy, *self.replay)
        learning = (*self.optimizers, *self.evaluator)
        return (*acting, *learning, *self.metrics, *self.extra, *self.others)

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

    def number(self, name: str) -> int:
        """What tells the random streams of a node from those of others, page or no page."""
        others = (each for each in self.all if each != DASHBOARD)
        return (*others, *self.spare, DASHBOARD, *self.spare_policy).index(name)

    def policy_of(self, shard: int) -> str:
        """The policy node that acts for ``shard`` where the run begins."""
        return self.policy[shard % len(self.policy)]
