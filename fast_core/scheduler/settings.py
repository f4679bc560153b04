"""What the scheduler is told once, before the run starts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import msgspec

from fast_core.errors import ConfigError
from fast_core.messages import Moment, Value
from fast_core.scheduler.failures import Budget


class Route(msgspec.Struct, frozen=True):
    """Where a user's message goes.

    Attributes:
        kind: Its class, as ``module:Class``.
        senders: Nodes that may send it.
        receivers: Nodes that each get it.
    """

    kind: str
    senders: tuple[str, ...]
    receivers: tuple[str, ...]


class FlowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What one learner gets to train on, how far ahead of it, and what a ticket grants it.

    Attributes:
        key: Which learner it is; empty for the only one.
        shards: Number of its shards; one ticket is this many shard rollouts.
        optimizers: Names of the optimizer nodes, by rank; the first one reports what is trained and
            is asked for snapshots.
        replay: Name of the replay node, None for an algorithm that learns from rollouts.
        stages: Nodes that take every rollout, in this order, before it is trained on.
        followers: Nodes that get every ticket too; it is settled when they have answered.
        degree: `off_policy_degree`: tickets that may be collected ahead of training.
        stragglers: What becomes of a rollout without which the next ticket would break its bound.
        auto_degree: The run chooses it by itself, and ``degree`` is the largest that it may.
        rows_per_rollout: Environment steps of one shard rollout (T times B).
        updates_granted: Optimizer steps that one ticket grants, where there is no ratio.
        replay_ratio: Optimizer steps per environment step, a number as text ("0.1", "1/3"), taken
            exactly; None where every ticket grants the same.
        learning_starts: Environment steps before the first one that grants any; with replay only.
        replay_kept: Whether a checkpoint holds what the replay does.
        stop_env_steps: Trained environment steps that end the run, rounded up to whole tickets.
        stop_updates: Optimizer steps that end the run, rounded up to whole tickets.
    """

    key: str = ""
    shards: int
    optimizers: tuple[str, ...]
    replay: str | None = None
    stages: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()
    degree: int
    auto_degree: bool = False
    stragglers: Literal["wait", "drop"] = "wait"
    rows_per_rollout: int
    updates_granted: int = 0
    replay_ratio: str | None = None
    learning_starts: int = 0
    replay_kept: bool = True
    stop_env_steps: int | None = None
    stop_updates: int | None = None

    def __post_init__(self) -> None:
        _check_least(self, ("shards", "rows_per_rollout"), ("stop_env_steps", "stop_updates"))
        _check_least(self, ("degree", "updates_granted", "learning_starts"), least=0)
        if self.stop_updates is not None and self.ratio == 0:
            raise ConfigError(
                f"stop.updates must be reachable; got {self.stop_updates!r}, but a ticket grants "
                "0 updates. Grant updates or stop by env_steps or time_s."
            )

    @property
    def rows_per_ticket(self) -> int:
        """Environment steps that one ticket trains on."""
        return self.shards * self.rows_per_rollout

    @property
    def optimizer(self) -> str:
        """The optimizer that reports."""
        return self.optimizers[0]

    @property
    def ratio(self) -> Fraction:
        """Optimizer steps per environment step."""
        if self.replay_ratio is None:
            return Fraction(self.updates_granted, self.rows_per_ticket)
        return Fraction(self.replay_ratio)


class SchedulerSettings(FlowSettings, frozen=True, kw_only=True):
    """The facts and limits that every decision of the scheduler rests on.

    What stands in `FlowSettings` is about the first learner.

    Attributes:
        others: Those of further learners, which share the env nodes.
        env_nodes: Names of the env nodes, in the order in which they get their shards.
        spare_nodes: Names of further ones that may be added while it runs; None where none may
            come or go.
        policy_nodes: Names of the policy nodes, by rank; they are ``other_nodes`` too.
        spare_policies: Names of further ones that may be added while it runs; None where
            none may come or go.
        evaluator: Name of the evaluator node, None when evaluation is off.
        other_nodes: Nodes that must be ready before the run starts but have no part of a
            checkpoint.
        savers: Nodes of the user's that have one.
        optional: Nodes of the user's that the run neither waits for nor ends with.
        routes: Where the messages of the user's nodes go.
        moments: What the run waits for callbacks to be told of.
        changeable: What callbacks may change, by key of the configuration, and what it says.
        callbacks_save: Whether callbacks have a part of a checkpoint.
        balance: Whether shards move between env nodes by what rollouts take them.
        balance_policies: Whether they come to other policy nodes by what requests take those.
        restarts: Deaths that the run survives, by kind of node.
        backoff_s: Wait before a node is started anew the second time.
        max_backoff_s: Longest wait.
        comebacks: Deaths of optimizers after which the run comes back from its newest checkpoint.
        comebacks_on_error: Whether an error that an optimizer raises is such a death.
        back: Whether this part of the run came back so: until it has begun, the death of a node
            that has a budget begins it once more.
        slots_per_shard: Rollout slots of each shard.
        nonfinite_share: Largest share of the last 100 training episodes that may have met NaN or
            infinity.
        eval_every_env_steps: Trained environment steps between evaluations; None turns them off.
        eval_episodes: Episodes of one evaluation, exactly.
        eval_mode: `sync` holds admission and training from the ticket after which an evaluation is
            wanted until its result, so it evaluates the version of that moment.
        eval_at_end: Evaluate the last version before an orderly end.
        checkpoint_every_updates: Updates between checkpoints; None for none on the way.
        checkpoint_at_end: Write a checkpoint before an orderly end.
        checkpoint_directory: Folder that holds the checkpoints.
        stop_time_s: Seconds since the first rollout began, earlier parts of the run included.
        stop_score: Mean return of an evaluation that counts as solved.
        stop_score_on: Environment that it is reached in, by name; None: that of training.
        stop_score_held: Evaluations in a row that must reach the score.
        start_timeout_s: Seconds until every node must be ready.
        work_timeout_s: Longest that a run may stand still at first; None: for ever, always.
        repeat_timeout_s: The same for what has come before, at least.

    Raises:
        ConfigError: A number is out of range, or the run could never make progress or end.
    """

    others: tuple[FlowSettings, ...] = ()
    env_nodes: tuple[str, ...]
    spare_nodes: tuple[str, ...] | None = None
    policy_nodes: tuple[str, ...] = ()
    spare_policies: tuple[str, ...] | None = None
    evaluator: str | None
    other_nodes: tuple[str, ...] = ()
    savers: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()
    moments: tuple[Moment, ...] = ()
    changeable: dict[str, Value] = {}
    callbacks_save: bool = False
    balance: bool = False
    balance_policies: bool = False
    restarts: tuple[Budget, ...] = ()
    backoff_s: float = 0.5
    max_backoff_s: float = 30.0
    comebacks: int = 0
    comebacks_on_error: bool = False
    back: bool = False
    slots_per_shard: int
    nonfinite_share: float = 1.0
    eval_every_env_steps: int | None
    eval_episodes: int
    eval_mode: Literal["async", "sync"]
    eval_at_end: bool
    checkpoint_every_updates: int | None
    checkpoint_at_end: bool
    checkpoint_directory: str
    stop_time_s: float | None
    stop_score: float | None
    stop_score_held: int
    stop_score_on: str | None = None
    start_timeout_s: float
    work_timeout_s: float | None = None
    repeat_timeout_s: float = 120.0

    def __post_init__(self) -> None:
        super().__post_init__()
        optional = ("eval_every_env_steps", "checkpoint_every_updates")
        _check_least(self, ("slots_per_shard", "eval_episodes", "stop_score_held"), optional)
        self._check_nodes()

    @property
    def flows(self) -> tuple[FlowSettings, ...]:
        """Those of every learner."""
        return (self, *self.others)

    @property
    def learners(self) -> tuple[str, ...]:
        """Optimizer nodes of every learner."""
        return tuple([node for flow in self.flows for node in flow.optimizers])

    @property
    def replays(self) -> tuple[str, ...]:
        """Replay nodes of every learner that has one."""
        return tuple([flow.replay for flow in self.flows if flow.replay is not None])

    @property
    def evaluates(self) -> bool:
        """Whether evaluations run while training."""
        return self.evaluator is not None and self.eval_every_env_steps is not None

    @property
    def working_nodes(self) -> tuple[str, ...]:
        """The nodes that hold a part of a checkpoint, the optimizers first."""
        return self.working_with(self.env_nodes)

    def working_with(self, env_nodes: Sequence[str]) -> tuple[str, ...]:
        """The same where other env nodes are there."""
        return (*self.learners, *self.replays, *env_nodes, *self.savers)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node that must be ready before the run starts."""
        evaluator = () if self.evaluator is None else (self.evaluator,)
        return (*self.working_nodes, *evaluator, *self.other_nodes)

    def _check_nodes(self) -> None:
        named = [*self.nodes, *self.optional]
        doubled = [name for name, count in Counter(named).items() if count > 1]
        if doubled:
            raise ConfigError(f"every node needs a name of its own; got {doubled!r} twice")
        given = {
            *self.stages,
            *self.followers,
            *(name for route in self.routes for name in route.receivers),
        }
        if unknown := sorted(given - {*self.savers, *self.other_nodes, *self.optional}):
            raise ConfigError(
                f"rollouts and messages can go to the user's nodes only; got {unknown!r}"
            )


def _check_least(
    settings: FlowSettings, names: Sequence[str], optional: Sequence[str] = (), least: int = 1
) -> None:
    """Refuse a number below ``least``; those that are ``optional`` may be None."""
    for name in (*names, *optional):
        got = getattr(settings, name)
        if (got is not None or name in names) and got < least:
            raise ConfigError(f"scheduler setting {name} must be at least {least}; got {got!r}")
