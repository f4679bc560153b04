"""The configuration of a run: typed, immutable, checked before any process exists.

The YAML file mirrors these types one to one and states only what differs from the defaults.
Reading files and overrides is in `fast_core.config_file`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Scalar = str | int | float | bool | None
Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every group of keys; a key that is not a field is refused."""


class AlgorithmConfig(Section, frozen=True, kw_only=True):
    """Base of every algorithm's own configuration type (``algos/<name>_config.py``)."""

    name: Annotated[str, Meta(description="Registered algorithm, or `package.module:Class`.")]


class EnvironmentConfig(Section, frozen=True, kw_only=True):
    """What is stepped."""

    id: Annotated[str, Meta(description="Gymnasium environment id.")]
    kwargs: Annotated[
        dict[str, Scalar | list[Scalar]], Meta(description="Arguments of `gymnasium.make`.")
    ] = {}
    modules: Annotated[
        tuple[str, ...],
        Meta(description="Modules to import first, for instance ones that register environments."),
    ] = ()
    reset_options: Annotated[
        dict[str, Scalar | list[Scalar]] | None,
        Meta(description="Options passed to every reset, automatic ones included."),
    ] = None
    step_timeout_s: Annotated[
        Seconds | None,
        Meta(
            description="Longest a single reset or step may take, in seconds; null waits for ever."
        ),
    ] = 60.0
    nonfinite: Annotated[
        Literal["quarantine", "fail"],
        Meta(
            description="When an observation or reward is NaN or infinite: cut the episode at the "
            "last good observation and count it, or end the run."
        ),
    ] = "quarantine"


class RolloutConfig(Section, frozen=True):
    """How much is collected for one ticket: shards x envs_per_shard x steps rows."""

    shards: Annotated[
        Count, Meta(description="Fixed sets of environments; results depend on it.")
    ] = 2
    envs_per_shard: Annotated[Count, Meta(description="Environments in each shard.")] = 16
    steps: Annotated[Count, Meta(description="Steps of each environment in one rollout.")] = 32


class PolicyConfig(Section, frozen=True):
    """Where and how actions are computed."""

    placement: Annotated[
        Literal["env"],
        Meta(description="`env`: next to the environments, no process is woken per step."),
    ] = "env"
    backend: Annotated[
        Literal["auto", "numpy", "torch"],
        Meta(description="Library of the policy's forward pass; auto takes numpy."),
    ] = "auto"


class EnvNodesConfig(Section, frozen=True):
    """The processes that step environments."""

    count: Annotated[
        Count | Literal["auto"],
        Meta(
            description="Number of env nodes; auto takes the cores granted, at most one per shard."
        ),
    ] = "auto"


class OptimizerNodeConfig(Section, frozen=True):
    """The process that learns."""

    threads: Annotated[
        Count | Literal["auto"],
        Meta(description="Threads of the learner; auto takes one unless an update is large."),
    ] = "auto"
    device: Annotated[str, Meta(description="Torch device: cpu, cuda, cuda:1, ...")] = "cpu"
    compile: Annotated[
        bool, Meta(description="Run the update under torch.compile; falls back where none works.")
    ] = False


class NodesConfig(Section, frozen=True):
    """The processes of the run."""

    env: EnvNodesConfig = EnvNodesConfig()
    optimizer: OptimizerNodeConfig = OptimizerNodeConfig()


class SchedulerConfig(Section, frozen=True):
    """How far collection may run ahead of training."""

    off_policy_degree: Annotated[
        int,
        Meta(
            ge=0,
            le=1000,
            description="Tickets collected ahead of training; 0 is strictly synchronous and "
            "bit for bit repeatable.",
        ),
    ] = 0


class EvaluationConfig(Section, frozen=True):
    """Evaluation of immutable snapshots, without exploration."""

    every_env_steps: Annotated[
        Count | None,
        Meta(description="Environment steps between evaluations; null turns them off."),
    ] = 20_000
    episodes: Annotated[Count, Meta(description="Episodes of one evaluation, exactly.")] = 20
    envs: Annotated[Count, Meta(description="Environments stepped together.")] = 20
    max_episode_steps: Annotated[
        Count,
        Meta(
            description="Steps after which an evaluation episode is cut, for environments without "
            "a time limit of their own."
        ),
    ] = 10_000
    mode: Annotated[
        Literal["async", "sync"],
        Meta(description="async trains on meanwhile; sync waits for the result."),
    ] = "async"
    at_end: Annotated[
        bool, Meta(description="Evaluate the last version too (only if evaluations are on).")
    ] = True


class CheckpointConfig(Section, frozen=True):
    """What is kept for resuming."""

    every_updates: Annotated[
        Count | None,
        Meta(description="Updates between checkpoints; null writes only the last one."),
    ] = 5_000
    keep: Annotated[Count, Meta(description="Newest complete checkpoints to keep.")] = 3
    best: Annotated[bool, Meta(description="Keep the policy with the best evaluation too.")] = True
    at_end: Annotated[bool, Meta(description="Write a checkpoint when the run ends in order.")] = (
        True
    )


class StopConfig(Section, frozen=True):
    """When the run is finished; whichever comes first. At least one must be set."""

    env_steps: Annotated[Count | None, Meta(description="Environment steps trained on.")] = None
    updates: Annotated[Count | None, Meta(description="Optimizer steps.")] = None
    time_s: Annotated[Seconds | None, Meta(description="Seconds since every node was ready.")] = (
        None
    )
    score: Annotated[
        float | None, Meta(description="Mean return of an evaluation that counts as solved.")
    ] = None
    score_held: Annotated[
        Count, Meta(description="Evaluations in a row that must reach the score.")
    ] = 1


class MemoryConfig(Section, frozen=True):
    """Shared memory."""

    backing: Annotated[
        Literal["auto", "posix", "memfd"],
        Meta(
            description="auto takes a nameless memory file (memfd), or posix where there is none."
        ),
    ] = "auto"


class MetricsConfig(Section, frozen=True):
    """What is written while training."""

    interval_s: Annotated[Seconds, Meta(description="Seconds between rows of metrics.")] = 1.0
    tensorboard: Annotated[bool, Meta(description="Write TensorBoard event files too.")] = True


class SupervisionConfig(Section, frozen=True):
    """Limits on waiting for nodes."""

    start_timeout_s: Annotated[Seconds, Meta(description="Until every node must be ready.")] = 120.0
    heartbeat_timeout_s: Annotated[
        Seconds, Meta(description="Silence of a node's I/O thread that counts as a failure.")
    ] = 30.0
    save_s: Annotated[
        Seconds, Meta(description="For a last checkpoint after Ctrl-C; then it ends without one.")
    ] = 1.0
    grace_s: Annotated[
        Seconds, Meta(description="From asking a node to stop until it is killed.")
    ] = 2.5


class DiagnosticsConfig(Section, frozen=True):
    """Switches for tests and for finding faults; all off by default."""

    digests: Annotated[
        bool, Meta(description="Write a SHA-256 of the learner's whole state after every ticket.")
    ] = False
    delay_ms: Annotated[
        float,
        Meta(ge=0, description="Every node sleeps a random time up to this before each task."),
    ] = 0.0


class RunConfig(Section, frozen=True, kw_only=True):
    """Everything that defines a run."""

    name: Annotated[
        str, Meta(description="Name of the run; runs land in `<directory>/<name>/<time>`.")
    ]
    directory: Annotated[str, Meta(description="Folder for run directories.")] = "runs"
    seed: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="Every random stream derives from it.")
    ] = 0
    mode: Annotated[
        Literal["process", "inline"],
        Meta(description="process: every node its own process; inline: all in one, for debuggers."),
    ] = "process"
    environment: EnvironmentConfig
    rollout: RolloutConfig = RolloutConfig()
    policy: PolicyConfig = PolicyConfig()
    algorithm: AlgorithmConfig
    nodes: NodesConfig = NodesConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    stop: StopConfig
    memory: MemoryConfig = MemoryConfig()
    metrics: MetricsConfig = MetricsConfig()
    supervision: SupervisionConfig = SupervisionConfig()
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()

    @property
    def rows_per_ticket(self) -> int:
        """Rows that one ticket collects and trains on."""
        return self.rollout.shards * self.rollout.envs_per_shard * self.rollout.steps
