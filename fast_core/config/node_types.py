"""The keys of `policy`, `nodes` and `supervision`: which processes there are, and their keep."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from fast_core.config.section import Count, Seconds, Section, Values


class PolicyConfig(Section, frozen=True):
    """Where and how actions are computed, and what of it is there already.

    Attributes:
        begins_from: What a new run begins with in place of first values: the networks and
            observation statistics of a run (its newest checkpoint), of one checkpoint, or of a
            policy's file, of equal spaces and network.
        loaded: What `from` was when the run was launched; FastLoop writes it.
        placement: env: next to the environments, no process is woken per step. node: in policy
            nodes, which batch the requests of many env nodes. auto measures both.
        backend: Library of the policy's forward pass; auto takes numpy unless the network has
            convolutions, or policies act in bf16 or on another device than the CPU.
        precision: Of the policy's forward pass in torch.
        groups: Parts of a shard that take turns with placement node: while one waits for its
            actions, another steps. More than envs_per_shard count as that many.
        measured: What placement auto measured; FastLoop writes it.
    """

    begins_from: str | None = msgspec.field(default=None, name="from")
    loaded: Values | None = None
    placement: Literal["env", "node", "auto"] = "env"
    backend: Literal["auto", "numpy", "torch"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    groups: Count = 2
    measured: dict[str, float] | None = None


class EnvNodesConfig(Section, frozen=True):
    """The processes that step environments.

    Attributes:
        count: Number of env nodes; auto takes the cores granted, at most one per shard.
        balance: Move shards from env nodes that take long for a rollout to others while the run
            goes on, where nodes share the machine with other work or environments differ in speed.
            A shard that moves begins new episodes, so results depend on timing.
    """

    count: Count | Literal["auto"] = "auto"
    balance: bool = False


class PolicyNodesConfig(Section, frozen=True):
    """The processes that act for env nodes, with policy.placement node.

    Attributes:
        count: Number of policy nodes; shards are shared out.
        threads: Threads of each; auto takes one, or what env nodes leave idle.
        device: Torch device: cpu, cuda, cuda:1, ...
        max_batch: Most rows of one forward pass above off_policy_degree 0; null takes all that
            wait. At degree 0 every group has a forward pass of its own.
        balance: Let shards come from policy nodes that take long to act to others while the run
            goes on, where nodes share the machine with other work. At degree 0 results stay the
            same.
    """

    count: Count = 1
    threads: Count | Literal["auto"] = "auto"
    device: str = "cpu"
    max_batch: Count | None = None
    balance: bool = False


class ExtraNodeConfig(Section, frozen=True, kw_only=True):
    """A node of your own; its class alone stands for one without settings.

    Attributes:
        node: Its class, as `package.module:Class`.
        name: Its name; the class's name in lower case by default.
        settings: What the node reads its own keys from.
    """

    shorthand: ClassVar[str] = "node"

    node: str
    name: str | None = None
    settings: Values = {}

    @property
    def node_name(self) -> str:
        """Its name in the run."""
        return self.name or self.node.rpartition(":")[2].rpartition(".")[2].lower()


class PartConfig(Section, frozen=True, kw_only=True):
    """A part of your own; its class alone stands for one without settings.

    Attributes:
        part: Its class, as `package.module:Class`.
        key: Its key; the class's name in lower case by default.
        settings: What the part and its nodes read.
    """

    shorthand: ClassVar[str] = "part"

    part: str
    key: str | None = None
    settings: Values = {}

    @property
    def part_key(self) -> str:
        """What tells it from others."""
        return self.key or self.part.rpartition(":")[2].rpartition(".")[2].lower()


# The page is a node like those of a user; it stands here where it is served.
PAGE = ExtraNodeConfig(node="fast_core.dashboard.node:Dashboard", name="dashboard")


class OptimizerNodeConfig(Section, frozen=True):
    """The processes that learn.

    Attributes:
        count: Optimizers; more than one needs an algorithm that learns from replay.
        update: How more than one works together. allreduce: each differentiates its share of a
            batch and all take the same averaged step. async: each differentiates a batch of its
            own, and the first one applies the gradients as they come.
        collective: What averages gradients with update allreduce. shared: FastLoop's shared memory.
            gloo, nccl: torch.distributed. auto takes nccl on CUDA devices, else shared.
        max_gradient_staleness: With update async: most steps committed between the parameters that
            a gradient was computed at and its own step; faster optimizers wait for slower ones to
            keep it. null: count - 1.
        threads: Threads of each learner; auto takes one unless an update is large.
        device: Torch device: cpu, cuda, cuda:1, ...
        precision: Of the network's passes in torch; parameters stay float32.
        compile: Run the update under torch.compile; falls back where none works.
    """

    count: Count = 1
    update: Literal["allreduce", "async"] = "allreduce"
    collective: Literal["auto", "shared", "gloo", "nccl"] = "auto"
    max_gradient_staleness: int | None = None
    threads: Count | Literal["auto"] = "auto"
    device: str = "cpu"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False


class NodesConfig(Section, frozen=True):
    """The processes of the run.

    Attributes:
        extra: Nodes of your own; those that take rollouts do so in this order, before they are
            trained on.
        parts: Parts of your own, which bring nodes and shared memory for them.
    """

    env: EnvNodesConfig = EnvNodesConfig()
    policy: PolicyNodesConfig = PolicyNodesConfig()
    optimizer: OptimizerNodeConfig = OptimizerNodeConfig()
    extra: tuple[ExtraNodeConfig, ...] = ()
    parts: tuple[PartConfig, ...] = ()


class RestartsConfig(Section, frozen=True):
    """Deaths of nodes that the run survives: each is started anew and goes on.

    Beyond them a death ends the run with its first cause. Runs in one process (`mode: inline`)
    have no nodes that could die alone.

    Attributes:
        env: Deaths of env nodes, in all. What was being collected is dropped, counted and ordered
            anew, and the shards go on with new episodes.
        policy: Deaths of policy nodes, in all.
        replay: Deaths of the replay node; its successor goes on with what it held. Priorities lie
            in shared memory then.
        evaluator: Deaths of the evaluator; it plays the evaluation once more.
        optimizer: Deaths of optimizers, in all: the whole run goes back to its newest checkpoint,
            or begins once more where there is none.
        backoff_s: Wait before a node is started anew the second time, and twice as long each time
            after that; the first time there is none. It begins again once the node has lived for
            max_backoff_s.
        max_backoff_s: Longest wait.
        on_error: What an error that a node raises is, an environment's say: end of the run, or
            restart: a death like others, for simulators that fail now and then.
    """

    env: Annotated[int, Meta(ge=0)] = 0
    policy: Annotated[int, Meta(ge=0)] = 0
    replay: Annotated[int, Meta(ge=0)] = 0
    evaluator: Annotated[int, Meta(ge=0)] = 0
    optimizer: Annotated[int, Meta(ge=0)] = 0
    backoff_s: Seconds = 0.5
    max_backoff_s: Seconds = 30.0
    on_error: Literal["end", "restart"] = "end"


class SupervisionConfig(Section, frozen=True):
    """Limits on waiting for nodes.

    Attributes:
        start_timeout_s: Until every node must be ready; longest that imports, the constructor and
            the first reset of an environment may take. Where one took more than a second, a node
            has twice that besides for each that it makes.
        heartbeat_timeout_s: Silence of a node's process that counts as a failure. A thread of the
            native core gives the sign of life, so a long call is none, whatever it holds.
        work_timeout_s: Longest that anything else of a node may take in which no counter of it
            moves: an update of the learner, a forward pass, a checkpoint, a call of a node of your
            own. The first time of each kind may take all of it, since something may be compiled or
            tuned; null waits for ever, the next times too.
        repeat_timeout_s: Likewise, from the second time of each kind on. Where that is more, a node
            may take 20 times the longest so far, or twice the first, instead, but never more than
            work_timeout_s. Both also limit how long a run may stand still, in which something is
            owed, nothing comes and no node is at work.
        env_restarts: Older name of `restarts.env`; 0 says nothing.
        save_s: For a last checkpoint after Ctrl-C, or three times what a round took where that is
            more; then it ends without one. Time counts from the last progress: bytes written, a
            round trained on, or a step on replay. A second Ctrl-C ends at once.
        grace_s: From asking a node to stop until it is killed; the time that closing its
            environments may take.
    """

    start_timeout_s: Seconds = 120.0
    heartbeat_timeout_s: Seconds = 30.0
    work_timeout_s: Seconds | None = 600.0
    repeat_timeout_s: Seconds = 120.0
    restarts: RestartsConfig = RestartsConfig()
    env_restarts: Annotated[int, Meta(ge=0)] = 0
    save_s: Seconds = 1.0
    grace_s: Seconds = 2.5

    @property
    def env_deaths(self) -> int:
        """Deaths of env nodes that the run survives, whichever name says so."""
        return max(self.env_restarts, self.restarts.env)
